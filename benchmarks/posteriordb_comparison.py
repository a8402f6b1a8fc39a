"""The comparison of docs/posteriordb.md: our methods and CmdStan's on every posterior with a reference.

``dais-stan bench posteriordb`` on all our programs whose data is at hand, one seed, and NUTS from the default
run that each of our references records. Programs that take long are compiled, for the others stanli serves.
Left to --full: CmdStan's methods, which have each program compiled, beyond the posteriors with a reference of
ours.

    python benchmarks/posteriordb_comparison.py --posteriordb FOLDER [--full] [--workers 2]
"""

from __future__ import annotations

from pathlib import Path

from study import Row, arguments, console, write_report

from dais_stan import cells
from dais_stan.bench.run import run_benchmark
from dais_stan.bench.summary import to_markdown
from dais_stan.posteriordb import PATH_VARIABLE, Shipped, available, open_folder
from dais_stan.report.bench_page import method_points
from dais_stan.report.figures import accuracy

OURS, RIVALS = ("auto", "fullrank", "meanfield"), ("advi", "pathfinder", "laplace")
SLOW = ("one_comp_mm_elim_abs-one_comp_mm_elim_abs", "hudson_lynx_hare-lotka_volterra", "mcycle_gp-accel_gp")


def nuts_rows(names: list[str]) -> list[Row]:
    """NUTS at its defaults, from the run that went with each of our references."""
    rows = []
    for name in names:
        reference = Shipped().reference(name)
        if reference is None or reference.nuts is None:
            continue
        found = reference.nuts
        rows.append(
            {
                "posterior": name,
                "method": "nuts",
                "seed": found["seed"],
                "engine": "cmdstan",
                "budget": None,
                "failure": None,
                "worst_mean_error": found["worst_mean_error"],
                "worst_log_sd": found["worst_log_sd"],
                "gradients": found["gradient_evaluations"],
                "evaluations": found["gradient_evaluations"],
                "warned": bool(found["warnings"]),
                "said": "; ".join(found["warnings"]),
            }
        )
    return rows


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--posteriordb", type=Path, help=f"clone of posteriordb; {PATH_VARIABLE} if not said")
    parser.add_argument("--engine", default="stanli", help="stanli needs no compiling for our own methods")
    options = parser.parse_args()
    if options.fresh:
        (options.out / "posteriordb.cells.jsonl").unlink(missing_ok=True)
    names = available(open_folder(options.posteriordb))
    quick, slow = ([name for name in names if (name in SLOW) == is_slow] for is_slow in (False, True))
    referenced = [name for name in names if options.full or Shipped().reference(name)]
    rows = []
    for methods, on, engine in (
        (OURS, quick, options.engine),
        (OURS, slow, "auto"),
        (RIVALS, referenced, options.engine),
    ):
        if not on:
            continue
        rows += run_benchmark(
            options.out,
            posteriors=on,
            methods=methods,
            seeds=options.seeds or 1,
            engine=engine,
            folder=options.posteriordb,
            executor=options.executor,
            workers=options.workers,
            told=lambda done, of, cell, row: console.print(
                f"{done}/{of} {cell['posterior']} {cell['method']}", highlight=False
            ),
        )
    rows += nuts_rows(names)
    cells.write_rows(options.out / "posteriordb.json", rows)
    (options.out / "posteriordb.svg").write_text(accuracy(method_points(rows)), encoding="utf-8")
    write_report("posteriordb", to_markdown(rows), options)


if __name__ == "__main__":
    main()
