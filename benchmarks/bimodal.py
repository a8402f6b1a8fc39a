"""Two Gaussian modes: figures 3, 4 and 7 of Zenn & Bamler (2024).

The target is 1/2 N(0, 1/16) + 1/2 N(1, 1/16) in d dimensions (``bimodal.stan``, here its closed form in
coordinates centred between the modes). Settings are the paper's: q0 starts as N(1/2, I), Adam 1e-2 for 7,500
iterations, scaled mass. A fit is "c" where its q covers both modes (its mean is near their middle), "s" where
it has settled on one, "u" where neither. Every step averages ``--batch`` bounds (the paper: 512).

``--full`` is the whole grid, about 2 hours of one processor; ``--claims`` of it only VI and N = 4, up to
d = 10, one run each.

    python benchmarks/bimodal.py [--quick | --full [--claims]] [--workers 2]
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from analytic import bimodal_target
from estimates import q_moments
from study import Cell, Row, arguments, group, markdown, run_cells, write_report

import dais_stan as ds
from dais_stan.methods import make_method

#: A mean within this of a mode or of the middle, root mean square over dimensions, is near it.
NEAR = 0.15
CENTRE = 0.5


def options_of(cell: Cell) -> dict[str, Any]:
    """The method's own options."""
    options: dict[str, Any] = {"particles": cell["particles"]}
    if cell["method"] == "dais0":
        options |= {"transitions": cell["transitions"], "mass": "scaled", "log_mass": 1e-6}
    if cell["method"] == "msc":
        return options | {"chains": 1}
    return options | {"groups": cell["batch"]}


def run(cell: Cell) -> Row:
    """One d, method, N, K and seed: where q's mean is, and the mean of log q over draws of the target."""
    target, options = bimodal_target(cell["d"], CENTRE), options_of(cell)
    schedule = make_method(cell["method"], "paper", **options).schedule
    rate = 1e-4 if cell["method"] == "msc" else 1e-2
    schedule = replace(schedule, learning_rates=(rate,), max_iterations=cell["iterations"])
    options |= {"preset": "paper", "schedule": schedule, "importance_draws": 100}
    fit = ds.fit(target, cell["method"], seed=cell["seed"], **options)
    mean, sd = q_moments(fit)
    rng = np.random.default_rng(cell["seed"])
    mode = rng.integers(0, 2, (1000, 1))
    draws = mode - CENTRE + 0.25 * rng.standard_normal((1000, cell["d"]))
    distance = {place: float(np.sqrt(((mean + CENTRE - place) ** 2).mean())) for place in (0.0, 0.5, 1.0)}
    return {
        "mean_log_q": float(fit.log_prob(draws).mean()),
        "kind": classify(distance),
        "mean_coordinate": float(mean.mean() + CENTRE),
        "sd": float(sd.mean()),
    }


def classify(distance: dict[float, float]) -> str:
    """ "c" near the middle, "s" near a mode, "u" near neither."""
    if distance[0.5] < NEAR:
        return "c"
    return "s" if min(distance[0.0], distance[1.0]) < NEAR else "u"


def cells(options: argparse.Namespace) -> list[Cell]:
    """Every run. With one particle, "iwvi" is VI, and there is no "msc"."""
    full = options.full
    dims = range(1, 11 if options.claims else 16) if full else (1, 2, 4, 7)
    sizes = (1, 2, 4, 8, 16) if full and not options.claims else (1, 4)
    dais_sizes = (4,) if options.claims else sizes
    methods = [("iwvi", n, 0) for n in sizes]
    methods += [("dais0", n, k) for n in dais_sizes for k in ((2, 4, 8, 16) if full else (16,))]
    methods += [("msc", n, 0) for n in sizes if n > 1]
    common = {"iterations": options.iterations or (7_500 if full else 2_500), "batch": options.batch}
    return [
        {"d": d, "method": method, "particles": n, "transitions": k, "seed": seed, **common}
        for method, n, k in methods
        for d in dims
        for seed in range(options.seeds or (3 if full and not options.claims else 1))
    ]


def name_of(method: str, transitions: int) -> str:
    """As in the figures."""
    return f"DAIS_0({transitions})" if transitions else {"iwvi": "IWVI", "msc": "MSC_1c"}[method]


def table(rows: list[Row]) -> str:
    """Figure 3: the kind of fit for each d, one letter a seed."""
    dims = sorted({row["d"] for row in rows})
    lines = []
    for (method, n, k), runs in group(rows, "method", "particles", "transitions").items():
        kinds = ["".join(run["kind"] for run in runs if run["d"] == d) for d in dims]
        lines.append((name_of(method, k) if n > 1 or k else "VI", n, *kinds))
    return markdown(("method", "N", *(f"d = {d}" for d in dims)), lines)


def figure(rows: list[Row], path: Any) -> None:
    """Figures 4 and 7: mean log q over the target's draws, and q's mean, against d; one panel an N."""
    sizes = sorted({row["particles"] for row in rows})
    chart, panels = plt.subplots(
        2, len(sizes), figsize=(4 * len(sizes), 6), layout="constrained", squeeze=False, sharex=True
    )
    for column, n in enumerate(sizes):
        mine = [row for row in rows if row["particles"] == n]
        for (method, k), runs in group(mine, "method", "transitions").items():
            by_d = group(runs, "d")
            d = sorted(key[0] for key in by_d)
            for axes, value in zip(panels[:, column], ("mean_log_q", "mean_coordinate"), strict=True):
                axes.plot(
                    d,
                    [np.mean([run[value] for run in by_d[(i,)]]) for i in d],
                    "o-",
                    markersize=3,
                    label=name_of(method, k),
                )
        panels[0, column].set(title=f"N = {n}", yscale="symlog")
        panels[1, column].set(xlabel="d")
    panels[0, 0].set_ylabel("mean of log q over the target")
    panels[1, 0].set_ylabel("mean of q (modes at 0 and 1)")
    panels[0, -1].legend(fontsize="xx-small")
    chart.savefig(path, dpi=150)
    plt.close(chart)


def main() -> None:
    """Run, and write JSON, table and figure."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--claims", action="store_true", help="a few runs of the grid")
    parser.add_argument("--batch", type=int, default=64, help="groups of N particles in each step")
    options = parser.parse_args()
    rows = run_cells("bimodal", cells(options), run, options)
    text = "# Two modes\n\nc: q covers both; s: it sits on one; u: neither.\n\n" + table(rows)
    write_report("bimodal", text, options)
    figure(rows, options.out / "bimodal.png")


if __name__ == "__main__":
    main()
