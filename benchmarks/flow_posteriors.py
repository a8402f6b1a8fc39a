"""Flows against Gaussians on posteriors that no Gaussian follows, at one budget of gradients.

For each family: ELBO (and its gap to log Z where that is known), k-hat, and the worst errors of q's own
draws, unweighted: (mean - reference) / sd and log(sd / reference sd) over scalars. Every fit takes as many
Adam steps of 16 draws from the posterior mode; a flow's warm start comes on top and is in the gradients
reported. References: exact moments of the banana; of the others, NUTS with 4 chains of 2,000 draws.

    python benchmarks/flow_posteriors.py [--quick | --full]
"""

from __future__ import annotations

from functools import cache
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray
from study import Cell, Row, arguments, group, markdown, run_cells, write_report

import dais_stan as ds
from dais_stan.posteriordb import find, open_folder
from dais_stan.resources import stan_models

POSTERIORS = ("banana", "funnel", "gp_pois_regr", "eight_schools_centered", "logistic_regression")
FAMILIES = ("meanfield", "fullrank", "planar", "iaf", "o-sylvester", "h-sylvester", "t-sylvester")
LOG_Z = {"banana": float(np.log(2 * np.pi) + 0.5 * np.log(0.5)), "funnel": 0.0}

#: Figures of a run that the table averages over seeds.
FIGURES = ("elbo", "elbo_se", "khat", "mean_error", "sd_error", "gradients", "seconds")

Moments = dict[str, tuple[NDArray, NDArray]]


@cache
def target_of(posterior: str) -> ds.Target:
    """The program and its data."""
    if posterior == "gp_pois_regr":
        return find("gp_pois_regr-gp_pois_regr", open_folder(None)).target()
    data = stan_models() / f"{posterior}.data.json"
    return ds.Target.from_stan(stan_models() / f"{posterior}.stan", data=data if data.exists() else None)


@cache
def reference(posterior: str) -> Moments:
    """Mean and sd of each variable."""
    if posterior == "banana":
        return {"x": (np.zeros(()), np.sqrt(2.0)), "y": (np.array(0.5), np.sqrt(0.75))}
    target = target_of(posterior)
    nuts = ds.sample(target, chains=4, seed=1, iter_sampling=2000, adapt_delta=0.99, show_progress=False)
    return moments(target, nuts.draws())


def moments(target: ds.Target, draws: dict[str, NDArray]) -> Moments:
    """Of the parameters alone."""
    names = [name for name, variable in target.variables.items() if variable.block == "parameters"]
    return {name: (draws[name].mean(axis=0), draws[name].std(axis=0)) for name in names}


def run(cell: Cell) -> Row:
    """One posterior, family and seed."""
    target = target_of(cell["posterior"])
    schedule = ds.Schedule(learning_rates=(0.01,), window=500, max_iterations=cell["iterations"], fixed=True)
    flow = cell["family"] not in ("meanfield", "fullrank")
    options: dict[str, Any] = {"family": cell["family"], "flows": cell["flows"]} if flow else {}
    fit = ds.fit(target, "flow" if flow else cell["family"], seed=cell["seed"], schedule=schedule, **options)
    found = moments(target, fit.draws(20_000, seed=cell["seed"], weighted=False))
    trusted = reference(cell["posterior"])
    mean_error = max(np.abs((found[name][0] - m) / s).max() for name, (m, s) in trusted.items())
    sd_error = max(np.abs(np.log(found[name][1] / s)).max() for name, (_, s) in trusted.items())
    return {
        "elbo": fit.elbo,
        "elbo_se": fit.elbo_se,
        "khat": fit.khat,
        "mean_error": float(mean_error),
        "sd_error": float(sd_error),
        "gradients": fit.counts.gradient,
        "log_evidence": fit.log_evidence,
        "log_evidence_se": fit.log_evidence_se,
    }


def table(rows: list[Row]) -> str:
    """A line for each posterior and family, means over seeds."""
    lines = []
    for (posterior, family), runs in group(rows, "posterior", "family").items():
        mean = {name: float(np.mean([run[name] for run in runs])) for name in FIGURES}
        gap = f"{LOG_Z[posterior] - mean['elbo']:.3f}" if posterior in LOG_Z else ""
        lines.append(
            (
                posterior,
                family,
                f"{mean['elbo']:.3f} ± {mean['elbo_se']:.3f}",
                gap,
                f"{mean['khat']:.2f}",
                f"{mean['mean_error']:.2f}",
                f"{mean['sd_error']:.2f}",
                f"{mean['gradients']:.0f}",
                f"{mean['seconds']:.0f}",
            )
        )
    headings = ("posterior", "family", "ELBO", "log Z - ELBO", "k-hat", "worst mean", "worst log sd")
    return markdown((*headings, "gradients", "seconds"), lines)


def figure(rows: list[Row], path: Any) -> None:
    """How far each family's ELBO is below the best one's, and the worst error of a sd."""
    posteriors = list(dict.fromkeys(row["posterior"] for row in rows))
    chart, panels = plt.subplots(2, 1, figsize=(9, 6), layout="constrained", sharex=True)
    families = list(dict.fromkeys(row["family"] for row in rows))
    for i, family in enumerate(families):
        mine = group([row for row in rows if row["family"] == family], "posterior")
        place = np.arange(len(posteriors)) + (i - len(families) / 2) * 0.11
        best = [max(row["elbo"] for row in rows if row["posterior"] == name) for name in posteriors]
        elbo = [np.mean([row["elbo"] for row in mine[(name,)]]) for name in posteriors]
        error = [np.mean([row["sd_error"] for row in mine[(name,)]]) for name in posteriors]
        panels[0].bar(place, np.maximum(np.subtract(best, elbo), 1e-3), 0.1, label=family)
        panels[1].bar(place, error, 0.1)
    panels[0].set(ylabel="ELBO below the best, nats", yscale="log")
    panels[1].set(ylabel="worst |log(sd / reference sd)|")
    panels[1].set_xticks(range(len(posteriors)), posteriors)
    chart.legend(
        *panels[0].get_legend_handles_labels(), loc="outside upper center", fontsize="small", ncols=7
    )
    chart.savefig(path, dpi=150)
    plt.close(chart)


def main() -> None:
    """Run, and write JSON, table and figure."""
    options = arguments(__doc__ or "").parse_args()
    iterations = options.iterations or (10_000 if options.full else 2_500)
    cells = [
        {"posterior": posterior, "family": family, "flows": 8, "iterations": iterations, "seed": seed}
        for posterior in POSTERIORS
        for family in FAMILIES
        for seed in range(options.seeds or (3 if options.full else 1))
    ]
    rows = run_cells("flow_posteriors", cells, run, options)
    note = f"{iterations} Adam steps of 16 draws for every family; flows have 8 layers.\n\n"
    write_report("flow_posteriors", "# Flows on posteriors\n\n" + note + table(rows), options)
    figure(rows, options.out / "flow_posteriors.png")


if __name__ == "__main__":
    main()
