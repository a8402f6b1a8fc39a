"""Theorem 4.1 of Zenn & Bamler (2024): with perfect transitions, the gap times K is half the symmetrised KL.

For Gaussians each bridge q0^(1 - beta) f^beta is Gaussian, so that the gap log Z - E[log w] is in closed
form, and a simulation that draws each state from its bridge confirms it. With h(beta) the mean of log f/q0
under the bridge, the gap is the integral of h less its left Riemann sum, so by Euler and Maclaurin

    gap = [h(1) - h(0)] / (2 K) - [h'(1) - h'(0)] / (12 K^2) + O(K^-4),

where h(1) - h(0) is the symmetrised KL and h' the variance of log f/q0. Each transition's divergence agrees
with half its symmetrised one up to K^-3, but the K of them leave an error that falls as K^-2, not as K^-3,
unless the variance is the same at both ends.

    python benchmarks/theorem_4_1.py [--quick | --full]
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray
from scipy.stats import multivariate_normal
from study import Cell, Row, arguments, markdown, run_cells, write_report

TRANSITIONS = (1, 2, 4, 8, 16, 32, 64)


class Gaussian(NamedTuple):
    """N(mean, covariance): (D,), (D, D)."""

    mean: NDArray
    covariance: NDArray

    def kl(self, other: Gaussian) -> float:
        """KL(self || other)."""
        shift = other.mean - self.mean
        ratio = np.linalg.solve(other.covariance, self.covariance)
        return 0.5 * float(
            np.trace(ratio)
            - len(shift)
            + shift @ np.linalg.solve(other.covariance, shift)
            - np.linalg.slogdet(ratio)[1]
        )

    def bridge(self, other: Gaussian, beta: float) -> Gaussian:
        """The normalised self^(1 - beta) other^beta."""
        near, far = np.linalg.inv(self.covariance), np.linalg.inv(other.covariance)
        covariance = np.linalg.inv((1.0 - beta) * near + beta * far)
        mean = covariance @ ((1.0 - beta) * near @ self.mean + beta * far @ other.mean)
        return Gaussian(mean, covariance)

    def variance_of_log_ratio(self, near: Gaussian, far: Gaussian) -> float:
        """Variance of log far(z) - log near(z) for z from this Gaussian."""
        near_precision, far_precision = np.linalg.inv(near.covariance), np.linalg.inv(far.covariance)
        curvature = near_precision - far_precision
        slope = curvature @ self.mean + far_precision @ far.mean - near_precision @ near.mean
        spread = curvature @ self.covariance
        return float(0.5 * np.trace(spread @ spread) + slope @ self.covariance @ slope)

    def log_density(self, z: NDArray) -> NDArray:
        return multivariate_normal.logpdf(z, self.mean, self.covariance)


def problem(dim: int, seed: int) -> tuple[Gaussian, Gaussian]:
    """A mean-field q0 and a correlated target."""
    rng = np.random.default_rng(seed)
    mix = rng.standard_normal((dim, dim)) / np.sqrt(dim)
    target = Gaussian(rng.standard_normal(dim), mix @ mix.T + 0.3 * np.eye(dim))
    return Gaussian(np.zeros(dim), np.diag(rng.uniform(0.5, 1.5, dim))), target


def symmetrised_kl(q0: Gaussian, target: Gaussian) -> float:
    return q0.kl(target) + target.kl(q0)


def exact_gap(q0: Gaussian, target: Gaussian, transitions: int) -> float:
    """log Z - E[log w] with perfect transitions: the sum of KL between successive bridges."""
    bridges = [q0.bridge(target, k / transitions) for k in range(transitions + 1)]
    return sum(a.kl(b) for a, b in pairwise(bridges))


def second_order(q0: Gaussian, target: Gaussian) -> float:
    """The coefficient of K^-2 in the gap."""
    ends = (q0.variance_of_log_ratio(q0, target), target.variance_of_log_ratio(q0, target))
    return (ends[0] - ends[1]) / 12.0


def simulated_gap(
    q0: Gaussian, target: Gaussian, transitions: int, draws: int, rng: np.random.Generator
) -> tuple[float, float]:
    """The same from draws of every bridge, with its standard error; log Z is 0."""
    log_w = np.zeros(draws)
    for k in range(transitions):
        at = q0.bridge(target, k / transitions)
        z = rng.multivariate_normal(at.mean, at.covariance, draws)
        log_w += (target.log_density(z) - q0.log_density(z)) / transitions
    return -float(log_w.mean()), float(log_w.std() / np.sqrt(draws))


def run(cell: Cell) -> Row:
    """One dimension, seed and K."""
    q0, target = problem(cell["dim"], cell["seed"])
    rng = np.random.default_rng(cell["seed"])
    transitions = cell["transitions"]
    gap = exact_gap(q0, target, transitions)
    simulated, se = simulated_gap(q0, target, transitions, cell["draws"], rng)
    half = 0.5 * symmetrised_kl(q0, target)
    return {
        "gap_times_k": gap * transitions,
        "half_symmetrised_kl": half,
        "error_times_k2": (gap - half / transitions) * transitions**2,
        "second_order": second_order(q0, target),
        "simulated_times_k": simulated * transitions,
        "simulated_se_times_k": se * transitions,
    }


def figure(rows: list[Row], path: Any) -> None:
    """Gap times K against K, with the theorem's limit."""
    chart, axes = plt.subplots(figsize=(5, 3.5), layout="constrained")
    for dim in sorted({row["dim"] for row in rows}):
        mine = [row for row in rows if row["dim"] == dim and row["seed"] == 0]
        k = [row["transitions"] for row in mine]
        (line,) = axes.plot(k, [row["gap_times_k"] for row in mine], label=f"D = {dim}, exact")
        axes.errorbar(
            k,
            [row["simulated_times_k"] for row in mine],
            [2 * row["simulated_se_times_k"] for row in mine],
            fmt="o",
            color=line.get_color(),
        )
        axes.axhline(mine[0]["half_symmetrised_kl"], linestyle="--", color=line.get_color())
    axes.set(xscale="log", yscale="log", xlabel="K", ylabel="K times the gap (nats)")
    axes.legend()
    chart.savefig(path, dpi=150)
    plt.close(chart)


def main() -> None:
    """Run, and write JSON, table and figure."""
    options = arguments(__doc__ or "").parse_args()
    dims = (2, 5, 20) if options.full else (2, 5)
    draws = 200_000 if options.full else 50_000
    cells = [
        {"dim": dim, "seed": seed, "transitions": k, "draws": draws}
        for dim in dims
        for seed in range(options.seeds or (3 if options.full else 1))
        for k in TRANSITIONS
    ]
    rows = run_cells("theorem_4_1", cells, run, options)
    headings = ("D", "seed", "K", "gap x K", "simulated x K", "half symmetrised KL", "error x K^2", "limit")
    lines = [
        (
            row["dim"],
            row["seed"],
            row["transitions"],
            f"{row['gap_times_k']:.4f}",
            f"{row['simulated_times_k']:.4f} ± {row['simulated_se_times_k']:.4f}",
            f"{row['half_symmetrised_kl']:.4f}",
            f"{row['error_times_k2']:.4f}",
            f"{row['second_order']:.4f}",
        )
        for row in rows
    ]
    write_report("theorem_4_1", "# Theorem 4.1\n\n" + markdown(headings, lines), options)
    figure(rows, options.out / "theorem_4_1.png")


if __name__ == "__main__":
    main()
