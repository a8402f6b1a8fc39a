"""Expected KL of single components against mutual information along lambda: Lange et al. (2022), figure 2.

KL(m || p) = E[KL(q_theta || p)] - I[x; theta] (equation 4): lambda trades one for the other. I is bounded
from both sides by draws, and the Fisher information I_F (equation 9) is what psi itself maximises, so that
along the path dI_F / dE[KL] = lambda. The mixtures are those of ``kl_error.py``, kept in
``divergences.cells.jsonl``.

    python benchmarks/pareto.py [--quick | --full] [--workers 2]
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from mixtures import divergence_rows
from study import Row, arguments, group, markdown, write_report

from dais_stan.psis import KHAT_LIMIT


def table(rows: list[Row]) -> str:
    """The two sides for each lambda, and the slope of I_F from the lambda before."""
    lines, before = [], None
    for row in rows:
        information, fisher = row["information"], row["fisher"]
        sure = fisher["khat"] <= KHAT_LIMIT
        slope = ""
        if before and sure:
            rise = fisher["value"] - before["fisher"]["value"]
            slope = f"{rise / (row['kl'] - before['kl']):.2f} ({np.sqrt(row['lam'] * before['lam']):.2f})"
        lines.append(
            (
                f"{row['lam']:g}",
                f"{row['kl']:.3f} ± {row['kl_se']:.3f}",
                f"{information['lower']:.3f} to {information['upper']:.3f} ± {information['se']:.3f}",
                f"{fisher['value']:.3f} ± {fisher['se']:.3f}" if sure else "k-hat too large",
                f"{row['kl'] - information['upper']:.3f} to {row['kl'] - information['lower']:.3f}",
                slope,
            )
        )
        before = row if sure else None
    headings = ("lambda", "E[KL(q, p)]", "I[x; theta]", "I_F", "KL(m, p)", "slope of I_F (mean lambda)")
    return markdown(headings, lines)


def figure(rows: list[Row], path: Path) -> None:
    """I over E[KL] for each problem where I is known to half a nat, with lines of equal KL(m || p)."""
    known = [row for row in rows if row["information"]["upper"] - row["information"]["lower"] < 0.5]
    problems = group(known, "problem")
    chart, panels = plt.subplots(1, len(problems), figsize=(4.4 * len(problems), 4.0), layout="constrained")
    for axes, ((problem,), mine) in zip(panels, problems.items(), strict=True):
        kl = np.array([row["kl"] for row in mine])
        low, high = (np.array([row["information"][side] for row in mine]) for side in ("lower", "upper"))
        axes.fill_between(kl, low, high, alpha=0.4, label="I[x; θ], between its bounds")
        axes.plot(kl, high, "C0.")
        sure = [row for row in mine if row["fisher"]["khat"] <= KHAT_LIMIT]
        fisher = [row["fisher"]["value"] for row in sure]
        axes.plot([row["kl"] for row in sure], fisher, "C1.-", label="Fisher, I_F")
        ends = np.array([0.0, 1.15 * kl.max()])
        for divergence in np.linspace(0.0, 2.0 * kl.min(), 5):
            axes.plot(ends, ends - divergence, color="0.8", linewidth=0.8, zorder=0)
        for row in mine:
            at = (row["kl"], row["information"]["lower"])
            axes.annotate(f"{row['lam']:.3g}", at, (6, -6), textcoords="offset points", fontsize="x-small")
        axes.set(title=problem, xlabel="E[KL(q, p)] (nats)", xlim=ends, ylim=(-0.05 * ends[1], ends[1]))
    panels[0].set_ylabel("information (nats); numbers: λ; grey: equal KL(m, p)")
    panels[-1].legend(fontsize="small", loc="upper left")
    chart.savefig(path, dpi=150)
    plt.close(chart)


def main() -> None:
    """Run, and write JSON, table and figure."""
    options = arguments(__doc__ or "").parse_args()
    first = [row for row in divergence_rows(options) if row["seed"] == 1]
    text = "# Expected KL against information\n\nIn nats; one seed.\n\n"
    for (problem,), rows in group(first, "problem").items():
        text += f"## {problem}\n\n{table(rows)}\n"
    write_report("pareto", text, options)
    figure(first, options.out / "pareto.png")


if __name__ == "__main__":
    main()
