"""VI against posteriordb's reference posteriors: errors of means and sds, k-hat, and what it cost.

For each of our programs whose data and reference summary stand in a folder of posteriordb extracts
(``data/NAME.json``, ``summary/NAME.json``), mean-field and full-rank VI at their defaults: the worst
standardised error of a mean, the worst log ratio of a standard deviation, of the draws that ``Fit.draws``
gives. A fit counts as good with both below 0.1 and as bad with either above 0.3; the table says how often
the fit's own warnings agree.

    python benchmarks/vi_posteriordb.py --reference FOLDER [--full] [--workers 2]
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np
from study import Cell, Row, arguments, markdown, run_cells, write_report

import dais_stan as ds
from dais_stan import arviz_io, resources
from dais_stan.errors import DaisStanError

GOOD, BAD = 0.1, 0.3
#: The reference draws of the non-centred program serve the centred one too.
SAME_POSTERIOR = {"eight_schools-eight_schools_centered": "eight_schools-eight_schools_noncentered"}
#: Minutes of ODE solving for each fit; left to --full.
SLOW = ("one_comp_mm_elim_abs-one_comp_mm_elim_abs", "hudson_lynx_hare-lotka_volterra")


def program_of(posterior: str) -> Path | None:
    name = f"{posterior.split('-')[1]}.stan"
    models = resources.stan_models()
    return next((path for path in (models / "posteriordb" / name, models / name) if path.is_file()), None)


def summary_of(folder: Path, posterior: str) -> Path:
    return folder / "summary" / f"{SAME_POSTERIOR.get(posterior, posterior)}.json"


def available(folder: Path, full: bool) -> list[str]:
    """Posteriors with a program of ours, data and a reference summary."""
    names = sorted(path.stem for path in (folder / "summary").glob("*.json"))
    names += [name for name in SAME_POSTERIOR if SAME_POSTERIOR[name] in names]
    return [
        name
        for name in names
        if program_of(name)
        and (folder / "data" / f"{name.split('-')[0]}.json").is_file()
        and (full or name not in SLOW)
    ]


def run(cell: Cell) -> Row:
    """Fit one posterior and hold its draws against the reference; a failure is a row that says why."""
    folder, posterior = Path(cell["reference"]), cell["posterior"]
    reference = json.loads(summary_of(folder, posterior).read_text())
    try:
        target = ds.Target.from_stan(
            program_of(posterior),
            data=folder / "data" / f"{posterior.split('-')[0]}.json",
            engine=cell["engine"],
        )
        fit = ds.fit(target, cell["method"], seed=cell["seed"])
    except DaisStanError as error:
        return {"failure": str(error)}
    draws = arviz_io.scalars(fit.groups(10_000)["posterior"])
    names = [name for name in reference["parameter_names"] if name in draws]
    index = [reference["parameter_names"].index(name) for name in names]
    values = np.stack([draws[name].ravel() for name in names])
    mean, sd = np.array(reference["mean"])[index], np.array(reference["sd"])[index]
    return {
        "failure": None,
        "scalars": len(names),
        "worst_mean_error": float(np.abs((values.mean(axis=1) - mean) / sd).max()),
        "worst_log_sd_ratio": float(np.abs(np.log(values.std(axis=1) / sd)).max()),
        "khat": fit.khat,
        "warned": bool(fit.warnings),
        "gradients": fit.counts.gradient,
        "log_evidence": fit.log_evidence,
        "fit_seconds": fit.seconds,
    }


def report(rows: list[Row]) -> str:
    text = ""
    for method in ("fullrank", "meanfield"):
        done = [row for row in rows if row["method"] == method and not row["failure"]]
        failed = [row for row in rows if row["method"] == method and row["failure"]]
        worst = [max(row["worst_mean_error"], row["worst_log_sd_ratio"]) for row in done]
        good = [row["warned"] for row, error in zip(done, worst, strict=True) if error < GOOD]
        bad = [row["warned"] for row, error in zip(done, worst, strict=True) if error > BAD]
        text += f"## {method}\n\n" + markdown(
            [
                "posterior",
                "seed",
                "worst mean error",
                "worst log sd",
                "k-hat",
                "warned",
                "gradients",
                "seconds",
            ],
            [
                [
                    row["posterior"],
                    row["seed"],
                    f"{row['worst_mean_error']:.3f}",
                    f"{row['worst_log_sd_ratio']:.3f}",
                    f"{row['khat']:.2f}",
                    "yes" if row["warned"] else "",
                    row["gradients"],
                    f"{row['fit_seconds']:.1f}",
                ]
                for row in done
            ],
        )
        text += (
            f"\nBoth below {GOOD}: {len(good)} of {len(done) + len(failed)} fits, of which {sum(good)} were "
            f"warned of. Either above {BAD}: {len(bad)}, of which {sum(bad)} were warned of. "
            f"Failed: {len(failed)}. "
            f"Median gradients: {np.median([row['gradients'] for row in done]):.0f}.\n\n"
        )
        text += "".join(f"- {row['posterior']}: {row['failure']}\n" for row in failed)
    return text


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--reference", type=Path, default=os.environ.get("DAIS_STAN_POSTERIORDB"))
    parser.add_argument("--engine", default="stanli", help="stanli needs no compiling")
    options = parser.parse_args()
    if options.reference is None:
        sys.exit("name the folder of reference data with --reference or DAIS_STAN_POSTERIORDB")
    seeds = options.seeds or (3 if options.full else 1)
    cells = [
        {
            "posterior": posterior,
            "method": method,
            "seed": seed,
            "engine": options.engine,
            "reference": str(options.reference),
        }
        for posterior in available(Path(options.reference), options.full)
        for method in ("fullrank", "meanfield")
        for seed in range(1, seeds + 1)
    ]
    write_report("vi_posteriordb", report(run_cells("vi_posteriordb", cells, run, options)), options)


if __name__ == "__main__":
    main()
