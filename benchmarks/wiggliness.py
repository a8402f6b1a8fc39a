"""The best lambda against the smoothness of f and the number of components: Lange et al. (2022), figure 4.

On the banana, f(x) = sum_w w^alpha sin(w t_w . x + phase_w): the more negative alpha, the smoother f. The
squared error of the mean of f over T components is its squared bias plus the variance over T of one
component's expectation; lambda* is where its mean over 200 functions, smoothed over log lambda, is least.
A lambda* at an end of the grid, 1 or 10, means sampling or a single Gaussian.

    python benchmarks/wiggliness.py [--quick | --full] [--workers 2]
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from mixtures import (
    FUNCTIONS,
    TOYS,
    iterations,
    lambdas,
    random_functions,
    sample_mixture,
    smoothed_minimum,
)
from numpy.typing import NDArray
from study import Cell, Row, arguments, group, markdown, run_cells, write_report

COMPONENTS = (1, 5, 10, 20, 50, 100)


def alphas(count: int) -> NDArray:
    return np.linspace(-3.0, 0.0, count)


def run(cell: Cell) -> Row:
    """Mean squared error and its standard error over the functions, for each T and alpha."""
    mixture = sample_mixture(cell)
    functions = random_functions(mixture.target.dim)
    amplitudes = np.arange(1.0, functions.phases.shape[1] + 1.0)[:, None] ** alphas(cell["alphas"])
    values = [waves @ amplitudes for waves in functions.expected_waves(mixture.components)]
    truth = TOYS[cell["problem"]].expectation(functions, amplitudes)
    bias = np.stack([value.mean(axis=0) for value in values]) - truth
    variance = np.stack([value.var(axis=0, ddof=1) for value in values])
    errors = [bias**2 + variance / count for count in COMPONENTS]
    return {
        "mse": [error.mean(axis=0).tolist() for error in errors],
        "sem": [(error.std(axis=0, ddof=1) / np.sqrt(FUNCTIONS)).tolist() for error in errors],
    }


def best_lambdas(rows: list[Row]) -> NDArray:
    """lambda* for each T and alpha, by the mean over the seeds: (T, alpha)."""
    by_lambda = group(rows, "lam")
    lams = np.array([lam for (lam,) in by_lambda])
    mse, sem = (
        np.array([np.mean([row[name] for row in found], axis=0) for found in by_lambda.values()])
        for name in ("mse", "sem")
    )
    return np.array(
        [
            [smoothed_minimum(lams, mse[:, t, a], sem[:, t, a]) for a in range(mse.shape[2])]
            for t in range(mse.shape[1])
        ]
    )


def figure(alpha: NDArray, best: NDArray, path: Path) -> None:
    """lambda* over alpha, a line for each T."""
    chart, axes = plt.subplots(figsize=(5, 3.6), layout="constrained")
    colours = plt.get_cmap("viridis")(np.linspace(0.0, 0.9, len(COMPONENTS)))
    for count, line, colour in zip(COMPONENTS, best, colours, strict=True):
        axes.plot(alpha, line, marker=".", color=colour, label=f"T = {count}")
    axes.set(yscale="log", xlabel="α (smooth to wiggly)", ylabel="λ* (1 is sampling)")
    axes.set_yticks([1, 2, 3, 5, 10], ["1", "2", "3", "5", "10"])
    axes.set_yticks([], minor=True)
    axes.legend(fontsize="small")
    chart.savefig(path, dpi=150)
    plt.close(chart)


def main() -> None:
    """Run, and write JSON, table and figure."""
    options = arguments(__doc__ or "").parse_args()
    count = 25 if options.full else 13
    cells = [
        {"problem": "banana", "lam": lam, "seed": seed, "draws": iterations(options), "alphas": count}
        for lam in lambdas(options)
        for seed in range(1, (options.seeds or 1) + 1)
    ]
    best = best_lambdas(run_cells("wiggliness", cells, run, options))
    lines = [
        [f"{alpha:g}", *(f"{lam:.2f}" for lam in column)]
        for alpha, column in zip(alphas(count), best.T, strict=True)
    ]
    table = markdown(["alpha", *(f"T = {t}" for t in COMPONENTS)], lines)
    write_report("wiggliness", f"# lambda* against alpha on the banana\n\n{table}", options)
    figure(alphas(count), best, options.out / "wiggliness.png")


if __name__ == "__main__":
    main()
