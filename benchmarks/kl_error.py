"""The divergence of T components from the target over lambda: theorem 1 of Lange et al. (2022).

E[KL(m_T || p)] is infinite at lambda = 1, sampling, for every T, since components are points there; near it
components of D dimensions have E[log sd] of about -1 / (lambda - 1), and the divergence grows as
D / (lambda - 1). So some lambda > 1 is always better, and the best one falls as T grows. The mixtures are
those of ``pareto.py``, kept in ``divergences.cells.jsonl``.

    python benchmarks/kl_error.py [--quick | --full] [--seeds 3] [--workers 2]
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from mixtures import BUDGETS, divergence_rows, open_problem
from numpy.typing import NDArray
from study import Row, arguments, group, markdown, write_report


def errors(rows: list[Row]) -> tuple[NDArray, NDArray, NDArray]:
    """Lambdas (L,), and means over seeds of the error and its standard error, (L, T)."""
    by_lambda = group(rows, "lam")
    error, se = (
        np.array(
            [
                np.mean([[entry[name] for entry in row["errors"]] for row in found], axis=0)
                for found in by_lambda.values()
            ]
        )
        for name in ("error", "se")
    )
    return np.array([lam for (lam,) in by_lambda]), error, se


def _least_bias(rows: list[Row]) -> tuple[str, str]:
    """The lambda with the least KL(m || p), by its upper bound, and both bounds: the limit of large T."""
    best = min(rows, key=lambda row: row["errors"][0]["bias_upper"])
    bounds = best["errors"][0]
    return f"{best['lam']:g}", f"{bounds['bias_lower']:.3f} to {bounds['bias_upper']:.3f}"


def table(rows: list[Row], dim: int) -> str:
    """For each T the best lambda and its error, and the error near sampling and near VI."""
    lams, error, se = errors(rows)
    lines = []
    for t, count in enumerate(BUDGETS):
        best = int(np.argmin(error[:, t]))
        ends = [f"{error[i, t]:.2f} ± {se[i, t]:.2f}" for i in (0, 1, -1)]
        lines.append((count, f"{lams[best]:g}", f"{error[best, t]:.3f} ± {se[best, t]:.3f}", *ends))
    lines.append(("infinite", *_least_bias(rows), "", "", ""))
    growth = [f"{error[i, 0] * (lams[i] - 1) / dim:.2f}" for i in (0, 1)]
    named = [f"at {lams[i]:g}" for i in (0, 1, -1)]
    return (
        markdown(("T", "best lambda", "error there", *named), lines)
        + f"\nWith T = 1 the error times (lambda - 1) / D is {growth[0]} at lambda {lams[0]:g} and "
        f"{growth[1]} at {lams[1]:g}.\n\n"
    )


def figure(rows: list[Row], path: Path) -> None:
    """E[KL(m_T || p)] over lambda, a line for each T, with the least one marked."""
    problems = group(rows, "problem")
    chart, panels = plt.subplots(1, len(problems), figsize=(4.2 * len(problems), 3.8), layout="constrained")
    colours = plt.get_cmap("viridis")(np.linspace(0.0, 0.9, len(BUDGETS)))
    for axes, ((problem,), mine) in zip(panels, problems.items(), strict=True):
        lams, error, _ = errors(mine)
        for count, line, colour in zip(BUDGETS, error.T, colours, strict=True):
            axes.plot(lams, line, marker=".", color=colour, label=f"T = {count}")
            axes.plot(lams[np.argmin(line)], line.min(), "o", color=colour, markersize=8)
        near = lams[lams < 1.5]
        axes.plot(near, open_problem(problem).dim / (near - 1.0), "k--", label="D / (λ - 1)")
        axes.set(title=problem, xscale="log", yscale="log", xlabel="λ")
        axes.set_xticks([1, 2, 5, 10, 100], ["1", "2", "5", "10", "100"])
    panels[0].set_ylabel("E[KL(m_T, p)] (nats)")
    panels[-1].legend(fontsize="small")
    chart.savefig(path, dpi=150)
    plt.close(chart)


def main() -> None:
    """Run, and write JSON, table and figure."""
    options = arguments(__doc__ or "").parse_args()
    rows = divergence_rows(options)
    text = "# Divergence of T components\n\nIn nats, with Monte Carlo standard errors.\n\n"
    for (problem,), mine in group(rows, "problem").items():
        text += f"## {problem}\n\n{table(mine, open_problem(problem).dim)}"
    write_report("kl_error", text, options)
    figure(rows, options.out / "kl_error.png")


if __name__ == "__main__":
    main()
