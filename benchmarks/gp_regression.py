"""Gaussian-process regression: tables 1 and 3 to 12 and figure 5 of Zenn & Bamler (2024).

The posterior is Gaussian, so that errors are exact. The target is the closed form of
``gaussian_process.stan``. Runs use the paper's settings (``preset="paper"``): q0 = N(0, I), Adam 1e-3, 50,000
iterations; each step averages the bound of ``--batch`` groups of N particles (the paper's program: 128).

    python benchmarks/gp_regression.py [--quick | --full] [--workers 2]
"""

from __future__ import annotations

import numpy as np
from analytic import gp_data, gp_posterior, gp_target
from estimates import errors, runs
from published import comparison_table, plot_errors
from study import Cell, Row, arguments, run_cells, write_report

DATA_SETS = (("RBF_1", 10), ("RBF_1", 25), ("RBF_2", 10), ("RBF_2", 25))


def run(cell: Cell) -> Row:
    """One data set, method, N, K and seed."""
    mean, covariance, _ = gp_posterior(gp_data(cell["group"], cell["d"]))
    target = gp_target(cell["group"], cell["d"])
    return {"mae": errors(target, cell, (mean, np.sqrt(np.diag(covariance))))}


def cells(full: bool, seeds: int | None, iterations: int | None, batch: int) -> list[Cell]:
    """Every run; as published, each of 1000 draws by resampling is one of 1000 candidates."""
    common = {
        "iterations": iterations or (50_000 if full else 15_000),
        "batch": batch,
        "evaluation_draws": 100_000 if full else 10_000,
        "sir_candidates": 1000,
        "sir_draws": 1000,
    }
    return [
        {"group": name, "d": d, "method": method, "particles": n, "transitions": k, "seed": seed, **common}
        for name, d in (DATA_SETS if full else DATA_SETS[::2])
        for method, n, k in (runs((1, 2, 4, 16), (2, 4, 8, 16)) if full else runs((1, 16), (2,)))
        for seed in range(seeds or (3 if full else 1))
    ]


def main() -> None:
    """Run, and write JSON, table and figures."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--batch", type=int, default=32, help="groups of N particles in each step")
    options = parser.parse_args()
    rows = run_cells(
        "gp_regression", cells(options.full, options.seeds, options.iterations, options.batch), run, options
    )
    write_report("gp_regression", "# Gaussian-process regression\n\n" + comparison_table(rows), options)
    plot_errors(rows, options.out / "gp_regression.png")


if __name__ == "__main__":
    main()
