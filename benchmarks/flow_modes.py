"""Two modes with a flow: Markovian score climbing and DAIS_0 cover both, each half of the mass.

The target is that of figure 3 of Zenn & Bamler (2024) in two dimensions, 1/2 N(0, 1/16) + 1/2 N(1, 1/16),
from N(1/2, I). Beside the fits with a flow, the picture has those with a full-rank Gaussian by the same
methods, and the plain ELBO of the same flow.

    python benchmarks/flow_modes.py [--quick | --full]
"""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from analytic import bimodal_target
from study import Cell, Row, arguments, markdown, run_cells, write_report

import dais_stan as ds

CENTRE, SD = 0.5, 0.25
METHODS: dict[str, dict[str, Any]] = {
    "msc": {"particles": 8, "chains": 4},
    "dais0": {"particles": 4, "transitions": 4},
    "flow": {},
}
PAIRS = (
    ("msc", "fullrank"),
    ("msc", "t-sylvester"),
    ("dais0", "fullrank"),
    ("dais0", "t-sylvester"),
    ("flow", "t-sylvester"),
)
SHOWN = 1000


def run(cell: Cell) -> Row:
    """One fit: how q's draws lie about the modes, and some of them for the picture."""
    options = dict(METHODS[cell["method"]], family=cell["family"])
    if cell["family"] == "t-sylvester":
        options["flows"] = cell["flows"]
    schedule = ds.Schedule(learning_rates=(0.03, 0.01), max_iterations=cell["iterations"])
    target = bimodal_target(2, CENTRE)
    fit = ds.fit(target, cell["method"], seed=cell["seed"], start="zero", schedule=schedule, **options)
    z = fit.unconstrained_draws(10_000, seed=cell["seed"], weighted=False)
    distance = np.stack([np.linalg.norm(z - mode, axis=1) for mode in (-CENTRE, CENTRE)])
    within = distance.min(axis=0) < 3 * SD
    return {
        "share_right": float((distance[1] < distance[0]).mean()),
        "within": float(within.mean()),
        "gap": -fit.elbo,
        "gap_se": fit.elbo_se,
        "ess": fit.ess / len(fit.importance.z),
        "draws": (z[:SHOWN] + CENTRE).round(3).tolist(),
    }


def figure(rows: list[Row], path: Any) -> None:
    """Draws of q, with circles of three standard deviations about the modes."""
    chart, panels = plt.subplots(
        1, len(rows), figsize=(3 * len(rows), 3.7), layout="constrained", sharex=True, sharey=True
    )
    for row, axes in zip(rows, panels, strict=True):
        axes.plot(*np.array(row["draws"]).T, ".", markersize=1.5)
        for mode in (0.0, 1.0):
            axes.add_patch(plt.Circle((mode, mode), 3 * SD, fill=False, color="black", linewidth=0.8))
        axes.set(title=f"{row['method']}, {row['family']}\ngap {row['gap']:.3f}", aspect="equal")
    panels[0].set(xlim=(-1.5, 2.5), ylim=(-1.5, 2.5))
    chart.savefig(path, dpi=150)
    plt.close(chart)


def main() -> None:
    """Run, and write JSON, table and figure."""
    options = arguments(__doc__ or "").parse_args()
    iterations = options.iterations or (5_000 if options.full else 1_000)
    cells = [
        {"method": method, "family": family, "flows": 4, "iterations": iterations, "seed": seed}
        for method, family in PAIRS
        for seed in range(options.seeds or 1)
    ]
    rows = run_cells("flow_modes", cells, run, options)
    lines = [
        (
            row["method"],
            row["family"],
            f"{row['share_right']:.2f}",
            f"{row['within']:.3f}",
            f"{row['gap']:.3f} ± {row['gap_se']:.3f}",
            f"{row['ess']:.2f}",
            f"{row['seconds']:.0f}",
        )
        for row in rows
    ]
    headings = ("method", "family", "nearer the upper mode", "within 3 sd of a mode", "log Z - ELBO")
    text = markdown((*headings, "effective share", "seconds"), lines)
    note = f"Exact: a half, {1 - np.exp(-4.5):.3f}, 0 and 1. At most {iterations} iterations.\n\n"
    write_report("flow_modes", "# Two modes with a flow\n\n" + note + text, options)
    figure([row for row in rows if row["seed"] == 0], options.out / "flow_modes.png")


if __name__ == "__main__":
    main()
