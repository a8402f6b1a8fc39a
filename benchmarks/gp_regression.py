"""Gaussian-process regression: tables 1 and 3 to 12 and figure 5 of Zenn & Bamler (2024).

The posterior is Gaussian, so that errors are exact. The target is the closed form of
``gaussian_process.stan``. The paper's settings (``preset="paper"``) are q0 = N(0, I) and 50,000 iterations of
Adam 1e-3 on the mean bound of 128 groups of N particles; DAIS has fewer groups here, so that each step takes
at most 64 particles. Beside them stand this library's defaults at N = K = 16.

``--full`` is the whole grid, three runs of each cell but one at N = K = 16: about 5 hours of one processor.
``--claims`` is of it only IWVI with N = 1, DAIS with N = 1, K = 2 and N = K = 16, and the defaults.

    python benchmarks/gp_regression.py [--quick | --full [--claims]] [--workers 2]
"""

from __future__ import annotations

import argparse
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from analytic import gp_data, gp_posterior, gp_prediction, gp_target
from estimates import DEFAULTS, Run, estimate, grid
from published import comparison_table, plot_errors
from study import Cell, Row, arguments, run_cells, write_report

DATA_SETS = (("RBF_1", 10), ("RBF_1", 25), ("RBF_2", 10), ("RBF_2", 25))
FIGURE_5 = (("RBF_1", 10), ("RBF_2", 25))
CLAIMS: list[Run] = [("paper", "iwvi", 1, 0), ("paper", "dais", 1, 2), ("paper", "dais", 16, 16)]
DAIS_PARTICLES = 64
IWVI_GROUPS = 128


def run(cell: Cell) -> Row:
    """One data set, preset, method, N, K and seed."""
    mean, covariance, _ = gp_posterior(gp_data(cell["group"], cell["d"]))
    return estimate(gp_target(cell["group"], cell["d"]), cell, (mean, covariance))


def runs_of(options: argparse.Namespace) -> list[Run]:
    """Which runs."""
    if options.claims:
        return CLAIMS + DEFAULTS
    return grid((1, 2, 4, 16), (2, 4, 8, 16)) + DEFAULTS if options.full else CLAIMS[:2] + DEFAULTS


def cells(options: argparse.Namespace) -> list[Cell]:
    """Every run; as published, each of 1000 draws by resampling is one of 1000 candidates."""
    common = {
        "iterations": options.iterations or (50_000 if options.full else 15_000),
        "evaluation_draws": 100_000 if options.full else 10_000,
        "sir_candidates": 1000,
        "sir_draws": 1000,
    }
    out = []
    for preset, method, n, k in runs_of(options):
        batch = min(32, DAIS_PARTICLES // n) if method == "dais" else IWVI_GROUPS
        for name, d in DATA_SETS if options.full else DATA_SETS[::2]:
            dear = (preset, n * k) == ("paper", 256)
            for seed in range(options.seeds or (3 if options.full and not dear else 1)):
                place = {"group": name, "d": d, "preset": preset, "method": method, "particles": n}
                shown = preset == "default" and seed == 0 and (name, d) in FIGURE_5
                out.append({**place, "transitions": k, "seed": seed, "batch": batch, **common})
                out[-1] |= {"moments": True} if shown else {}
    return out


def figure_5(rows: list[Row], path: Any) -> None:
    """The latent function with its 95 % band, exact (grey) and by each estimate."""
    names = {"iwvi": "IWVI", "sir": "IWVI_SIR", "dais0": "DAIS_0", "dais_weighted": "DAIS", "msc8": "MSC_8c"}
    found = {
        (row["group"], row["d"], name): moments
        for row in rows
        for name, moments in row.get("moments", {}).items()
    }
    sets = [place for place in FIGURE_5 if any(key[:2] == place for key in found)]
    size = (3 * len(names), 3 * len(sets))
    chart, panels = plt.subplots(len(sets), len(names), figsize=size, layout="constrained", squeeze=False)
    x = np.linspace(0.0, 10.0, 200)
    for row, (kernel, d) in zip(panels, sets, strict=True):
        data = gp_data(kernel, d)
        exact = gp_prediction(data, *gp_posterior(data)[:2], x)
        for axes, (name, label) in zip(row, names.items(), strict=True):
            mean, sd = exact
            axes.fill_between(x, mean - 1.96 * sd, mean + 1.96 * sd, color="0.8", label="exact")
            mean, sd = gp_prediction(data, *map(np.array, found[kernel, d, name]), x)
            axes.plot(x, mean, color="C0", label=label)
            for side in (-1.96, 1.96):
                axes.plot(x, mean + side * sd, color="C0", linewidth=0.8, linestyle="--")
            axes.plot(data["t"], data["y"], "k.", markersize=3)
            axes.set(title=f"{label}, {kernel}, d = {d}", ylim=(-3, 3))
    chart.savefig(path, dpi=110)
    plt.close(chart)


def main() -> None:
    """Run, and write JSON, table and figures."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--claims", action="store_true", help="a few runs of the grid, and the defaults")
    options = parser.parse_args()
    rows = run_cells("gp_regression", cells(options), run, options)
    write_report("gp_regression", "# Gaussian-process regression\n\n" + comparison_table(rows), options)
    plot_errors(rows, options.out / "gp_regression.png")
    figure_5(rows, options.out / "gp_regression_figure_5.png")


if __name__ == "__main__":
    main()
