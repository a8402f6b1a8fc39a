"""Bayesian logistic regression: tables 2 and 14 to 23 and figure 6 of Zenn & Bamler (2024).

Sonar, ionosphere and the heart-attack data, through Stan. ``--logit paper_code`` (the default) is what the
paper's program fitted (see ``logistic_paper_code.stan``), "textbook" is logit = alpha + x beta. The paper's
settings are q0 = N(0, I) and 100,000 iterations of Adam 1e-3 on one bound of N particles; beside them stand
this library's defaults at N = K = 16. The reference is CmdStan's NUTS, as converged as its R-hat and ESS in
the table say; the paper's reference had 80 to 90 effective draws, which is most of its errors of the means.

``--full`` is the whole grid, about 8 hours of one processor; ``--claims`` of it only IWVI and DAIS with
N = K = 16, the latter for 30,000 iterations, and the defaults.

    python benchmarks/logistic.py [--quick | --full [--claims]] [--logit paper_code] [--workers 2]
"""

from __future__ import annotations

import argparse
import json
from functools import cache, partial
from pathlib import Path

import numpy as np
from estimates import DEFAULTS, Run, estimate, grid
from published import comparison_table, plot_errors
from study import Cell, Row, arguments, console, markdown, run_cells, write_report
from uci import training_data

import dais_stan as ds
from dais_stan import resources

CLAIMS: list[Run] = [("paper", "iwvi", 16, 0), ("paper", "dais", 16, 16)]
DEAR_ITERATIONS = 30_000
PROGRAMS = {"paper_code": "logistic_paper_code", "textbook": "logistic_regression"}


@cache
def target_of(data_set: str, logit: str) -> ds.Target:
    """The posterior of a data set's training rows."""
    path = resources.stan_models() / f"{PROGRAMS[logit]}.stan"
    return ds.Target.from_stan(path, data=training_data(data_set), threads=1)


def reference_file(data_set: str, options: argparse.Namespace) -> Path:
    """Where a reference posterior is kept."""
    name = f"logistic_reference_{data_set}_{options.logit}_{options.reference_draws}.json"
    return Path(options.out) / name


def reference(data_set: str, options: argparse.Namespace) -> Row:
    """Posterior means and standard deviations by NUTS, on the unconstrained coordinates."""
    file, draws = reference_file(data_set, options), options.reference_draws
    if file.exists():
        return dict(json.loads(file.read_text()))
    console.print(f"NUTS on {data_set}, {options.logit}", highlight=False)
    target = target_of(data_set, options.logit)
    fit = ds.sample(target, chains=4, seed=1, iter_warmup=1000, iter_sampling=draws // 4)
    sampled = fit.draws()
    # Parameters are unconstrained here: the coordinates are the declared numbers in their order.
    flat = np.concatenate([np.reshape(sampled[name], (draws, -1)) for name in target.variables], axis=1)
    out = {
        "mean": flat.mean(axis=0).tolist(),
        "sd": flat.std(axis=0).tolist(),
        "rhat": max(fit.rhat.values()),
        "ess": min(fit.ess.values()),
        "divergences": fit.divergences,
    }
    file.write_text(json.dumps(out))
    return out


def run(folder: Path, cell: Cell) -> Row:
    """One data set, preset, method, N, K and seed; ``folder`` has the reference."""
    known = json.loads((folder / cell["reference"]).read_text())
    target = target_of(cell["group"].replace("-", "_"), cell["logit"])
    return estimate(target, cell, (np.array(known["mean"]), np.diag(np.square(known["sd"]))))


def runs_of(options: argparse.Namespace) -> list[Run]:
    """Which runs."""
    if options.claims:
        return DEFAULTS + CLAIMS
    return DEFAULTS + (grid((1, 2, 4, 16), (2, 4, 8, 16)) if options.full else CLAIMS[:1])


def cells(options: argparse.Namespace) -> list[Cell]:
    """Every run; the published draws by resampling fit one of N candidates each."""
    full = options.full
    common = {
        "logit": options.logit,
        "iterations": options.iterations or (100_000 if full else 20_000),
        "batch": 1,
        "evaluation_draws": 20_000 if full else 10_000,
        "sir_draws": 20_000 if full else 10_000,
    }
    out = []
    for preset, method, n, k in runs_of(options):
        for name in options.data:
            file = reference_file(name, options)
            dear = (preset, n * k) == ("paper", 256)
            for seed in range(options.seeds or (3 if full and not dear else 1)):
                place = {"group": name.replace("_", "-"), "d": target_of(name, options.logit).dim}
                sizes = {"method": method, "particles": n, "transitions": k, "sir_candidates": n}
                out.append(
                    {**place, "preset": preset, **sizes, "seed": seed, "reference": file.name, **common}
                )
    return out


def main() -> None:
    """Run, and write JSON, tables and figure."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--claims", action="store_true", help="a few runs of the grid, and the defaults")
    parser.add_argument("--logit", choices=PROGRAMS, default="paper_code")
    parser.add_argument("--data", nargs="+", default=["sonar", "ionosphere"], help="also: heart_attack")
    parser.add_argument("--reference-draws", type=int, default=20_000, help="of NUTS, in four chains")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    known = {name: reference(name, options) for name in options.data}
    name = f"logistic_{options.logit}"
    rows = run_cells(name, cells(options), partial(run, options.out), options)
    heading = ("data", "worst R-hat", "least bulk ESS", "divergences")
    lines = [(key, f"{r['rhat']:.4f}", f"{r['ess']:.0f}", r["divergences"]) for key, r in known.items()]
    text = f"# Logistic regression, {options.logit}\n\nNUTS reference:\n\n" + markdown(heading, lines)
    write_report(name, text + "\n" + comparison_table(rows), options)
    plot_errors(rows, options.out / f"{name}.png")


if __name__ == "__main__":
    main()
