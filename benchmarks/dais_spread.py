"""How much the bound of DAIS says of q0's spread (N = K = 16), on the Gaussian-process posteriors.

DAIS_0 reports q0, whose standard deviations the published tables judge. Here they are held at c times the
posterior's, the mean at the posterior's, and everything else is learned: betas, steps, masses, retention. The
gap, log Z less the bound, is then drawn against c. Where it is flat the bound does not determine q0, and
what is reported depends on where the optimiser came from and when it stopped.

    python benchmarks/dais_spread.py [--quick | --full]
"""

from __future__ import annotations

from functools import partial
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from analytic import gp_data, gp_posterior, gp_target
from study import Cell, Row, arguments, group, markdown, run_cells, write_report

from dais_stan.engines.dais import Kernel, annealing_kernel
from dais_stan.families import MeanField
from dais_stan.objectives.annealing import PARTS, AnnealingParameters
from dais_stan.objectives.dais import noise_shape
from dais_stan.objectives.elbo import Estimate
from dais_stan.objectives.iwelbo import group_weights
from dais_stan.optimize import Schedule, maximize
from dais_stan.whitening import WhitenedTarget, Whitening

PARTICLES = TRANSITIONS = 16
DATA_SETS = (("RBF_1", 10), ("RBF_1", 25), ("RBF_2", 10), ("RBF_2", 25))
SCALES = (0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.4)


def estimate(
    kernel: Kernel, parameters: AnnealingParameters, params: np.ndarray, rng: np.random.Generator
) -> Estimate:
    """The bound of one group of particles at fresh noise."""
    path = parameters.unpack(params)
    noise = rng.standard_normal(noise_shape(TRANSITIONS, PARTICLES, parameters.family.dim))
    bound, gradient, rejected = kernel.bound_gradient(path, noise, 1)
    return Estimate(bound, parameters.pullback(params, path, gradient), rejected)


def run(cell: Cell) -> Row:
    """One data set, c and seed."""
    mean, covariance, log_evidence = gp_posterior(gp_data(cell["group"], cell["d"]))
    sd = cell["scale"] * np.sqrt(np.diag(covariance))
    target = gp_target(cell["group"], cell["d"])
    kernel = annealing_kernel(WhitenedTarget(target, Whitening(mean, sd)))
    learn = [part for part in PARTS if part != "q0"]
    parameters = AnnealingParameters(MeanField(len(mean)), TRANSITIONS, learn=learn)
    stiffness = np.linalg.eigvalsh(np.linalg.inv(covariance) * np.outer(sd, sd))[-1]
    start = parameters.initial(step=0.7, retention=0.5, stiffness=float(stiffness))
    rng = np.random.default_rng(cell["seed"])
    schedule = Schedule(learning_rates=(0.02, 0.005), max_iterations=cell["iterations"])
    best = maximize(partial(estimate, kernel, parameters), start, schedule, rng).params
    size = PARTICLES * cell["groups"]
    noise = rng.standard_normal(noise_shape(TRANSITIONS, size, len(mean)))
    log_weight = kernel.draws(parameters.unpack(best), noise).log_weight
    bounds = group_weights(log_weight.reshape(cell["groups"], PARTICLES))[0]
    error = abs(cell["scale"] - 1.0) * float(np.sqrt(np.diag(covariance)).mean())
    se = float(bounds.std() / np.sqrt(cell["groups"]))
    return {"gap": float(log_evidence - bounds.mean()), "se": se, "mae_std": error}


def figure(rows: list[Row], path: Any) -> None:
    """Gap against c, one panel a data set."""
    sets = group(rows, "group", "d")
    chart, panels = plt.subplots(1, len(sets), figsize=(3.2 * len(sets), 3), layout="constrained")
    for axes, ((name, d), runs) in zip(np.atleast_1d(panels), sets.items(), strict=True):
        for (seed,), mine in group(runs, "seed").items():
            scales, gaps, errors = zip(*((r["scale"], r["gap"], 2 * r["se"]) for r in mine), strict=True)
            axes.errorbar(scales, gaps, errors, fmt="o-", markersize=3, label=f"seed {seed}")
        axes.set(title=f"{name}, d = {d}", xlabel="q0's sd over the posterior's", ylim=(0, None))
    np.atleast_1d(panels)[0].set_ylabel("gap (nats)")
    chart.savefig(path, dpi=130)
    plt.close(chart)


def main() -> None:
    """Run, and write JSON, table and figure."""
    options = arguments(__doc__ or "").parse_args()
    full = options.full
    cells = [
        {"group": name, "d": d, "scale": scale, "seed": seed}
        | {"iterations": options.iterations or (10_000 if full else 2_000), "groups": 1_000}
        for name, d in (DATA_SETS if full else DATA_SETS[::2])
        for scale in (SCALES if full else SCALES[::2])
        for seed in range(options.seeds or 1)
    ]
    rows = run_cells("dais_spread", cells, run, options)
    headings = ("data", "d", "seed", "c", "gap", "error of the sd")
    lines = [
        (r["group"], r["d"], r["seed"], r["scale"], f"{r['gap']:.3f} ± {r['se']:.3f}", f"{r['mae_std']:.2e}")
        for r in rows
    ]
    text = "# The gap of DAIS (N = K = 16) with q0's sd held at c times the posterior's, in nats\n\n"
    write_report("dais_spread", text + markdown(headings, lines), options)
    figure(rows, options.out / "dais_spread.png")


if __name__ == "__main__":
    main()
