"""Between sampling and VI: the squared error of random functions over lambda, Lange et al. (2022), figure 3.

The mean of f over T = 10 components, for 200 random f: squared bias, variance and their sum, over lambda, on
the banana, the cigar and a mixture of Laplace distributions, whose expectations of f are known exactly.
Beside it the mean of T draws of CmdStan's NUTS, and the Gaussian of CmdStan's mean-field ADVI (four runs).
A component's expectation of f is exact, and so is ADVI's Gaussian's.

    python benchmarks/interpolation.py [--quick | --full] [--seeds 2] [--workers 2]

The error counts components and draws, not gradients: a component costs M gradients of the target for each
leapfrog step, a draw of NUTS one. The table's last column says how many were taken.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import cmdstanpy
import matplotlib.pyplot as plt
import numpy as np
from mixtures import (
    CHAINS,
    FUNCTIONS,
    TOYS,
    iterations,
    lambdas,
    open_problem,
    random_functions,
    sample_mixture,
    shuffled_components,
)
from numpy.typing import NDArray
from study import Cell, Row, arguments, group, markdown, run_cells, write_report

import dais_stan as ds
from dais_stan.engines.cmdstan import cmdstan_model
from dais_stan.target import Target
from infmix.components import Components

#: T, components or draws of an estimate.
COMPONENTS = 10
#: T for which the best mixture is held against NUTS and ADVI.
BUDGETS = (2, 5, 10, 20, 30, 50, 100)
ADVI_RUNS, ADVI_DRAWS, ADVI_TRIES = 4, 1000, 40


def run(cell: Cell) -> Row:
    """Mean and variance, over estimates, of each function's estimate by a mixture, NUTS or ADVI."""
    return {"mixture": _run_mixture, "NUTS": _run_nuts, "ADVI": _run_advi}[cell["method"]](cell)


def _run_mixture(cell: Cell) -> Row:
    mixture = sample_mixture(cell)
    values = random_functions(mixture.target.dim).expectation(shuffled_components(mixture))
    return {
        **of_groups(values),
        "gradients": mixture.gradient_evaluations,
        "divergences": mixture.sampler.divergences,
        "node_error": mixture.node_error,
    }


def _run_nuts(cell: Cell) -> Row:
    """As published: one half of the shuffled draws is for the truth, the other gives the estimates."""
    target = open_problem(cell["problem"])
    fit = ds.sample(target, CHAINS, cell["seed"], iter_sampling=2 * cell["draws"], parallel_chains=1)
    draws, total = fit.draws(), 2 * cell["draws"] * CHAINS
    x = np.stack([target.unconstrain({n: v[i] for n, v in draws.items()}) for i in range(total)])
    values = random_functions(target.dim)(np.random.default_rng(cell["seed"]).permutation(x))
    return {
        **of_groups(values[total // 2 :]),
        "truth": values[: total // 2].mean(axis=0).tolist(),
        "gradients": fit.gradient_evaluations,
        "divergences": fit.divergences,
    }


def of_groups(values: NDArray) -> dict[str, list[float]]:
    """Mean and unbiased variance of the means over groups of T of the values (N, F)."""
    groups = values[: len(values) - len(values) % COMPONENTS].reshape(-1, COMPONENTS, values.shape[1])
    return _moments(groups.mean(axis=1))


def _moments(estimates: NDArray) -> dict[str, list[float]]:
    return {"mean": estimates.mean(axis=0).tolist(), "variance": estimates.var(axis=0, ddof=1).tolist()}


def _run_advi(cell: Cell) -> Row:
    """Four runs; those that CmdStan gives up on for a gradient that is not finite are done again."""
    target, gaussians, failures = open_problem(cell["problem"]), [], 0
    seeds = (np.random.SeedSequence(cell["seed"]).generate_state(ADVI_TRIES) % 2**31).tolist()
    while len(gaussians) < ADVI_RUNS:
        try:
            gaussians.append(_advi(target, seeds.pop(0), cell["draws"]))
        except RuntimeError:
            failures += 1
            if not seeds:
                raise
    means, factors = (np.stack(parts) for parts in zip(*gaussians, strict=True))
    values = random_functions(target.dim).expectation(Components(means, factors))
    return {**_moments(values), "failures": failures}


def _advi(target: Target, seed: int, draws: int) -> tuple[NDArray, NDArray]:
    """Mean that CmdStan's mean-field ADVI reports, and the Cholesky factor of its draws' covariance."""
    assert target.program is not None
    with tempfile.TemporaryDirectory() as scratch, cmdstanpy.disable_logging():
        data = Path(scratch) / "data.json"
        data.write_text(target.data_json or "{}", encoding="utf-8")
        advi = cmdstan_model(target.program).variational(
            str(data), seed=seed, draws=draws, require_converged=False, output_dir=scratch, sig_figs=17
        )
        rows = np.vstack((advi.variational_params_np, advi.variational_sample))
        columns = [i for i, name in enumerate(advi.column_names) if not name.endswith("__")]
    parameters = {n: v for n, v in target.variables.items() if v.block == "parameters"}
    x = np.array(
        [target.unconstrain({n: row[v.columns] for n, v in parameters.items()}) for row in rows[:, columns]]
    )
    return x[0], np.linalg.cholesky(np.atleast_2d(np.cov(x[1:], rowvar=False)))


class Errors(NamedTuple):
    """Squared bias of each function's estimate (F,), and its variance with T = ``COMPONENTS``."""

    squared_bias: NDArray
    variance: NDArray

    def mse(self, components: int = COMPONENTS) -> NDArray:
        """Squared error with another T, too: the variance is inverse to it."""
        return self.squared_bias + self.variance * COMPONENTS / components


class Comparison(NamedTuple):
    """Errors of one problem: a mixture's by lambda, NUTS's and ADVI's, averages over the seeds."""

    mixtures: dict[float, Errors]
    nuts: Errors
    advi: Errors
    gradients: dict[float | str, float]

    @property
    def lambdas(self) -> NDArray:
        return np.array(list(self.mixtures))

    def best(self, components: int) -> float:
        """The lambda of the grid with the least mean squared error."""
        return min(self.mixtures, key=lambda lam: self.mixtures[lam].mse(components).mean())


def compare(problem: str, rows: Sequence[Row]) -> Comparison:
    """Errors of one problem's rows against the exact truth, or NUTS's where there is none."""
    by = group(rows, "method", "lam")
    if problem in TOYS:
        functions = random_functions(open_problem(problem).dim)
        truth = TOYS[problem].expectation(functions, functions.amplitudes)
    else:
        truth = np.mean([row["truth"] for row in by["NUTS", None]], axis=0)
    errors = {key: _errors(found, truth) for key, found in by.items()}
    cost = {key[1] or key[0]: np.mean([row.get("gradients", np.nan) for row in by[key]]) for key in by}
    mixtures = {lam: found for (method, lam), found in errors.items() if method == "mixture"}
    return Comparison(mixtures, errors["NUTS", None], errors["ADVI", None], cost)


def _errors(rows: Sequence[Row], truth: NDArray) -> Errors:
    bias = np.mean([(np.array(row["mean"]) - truth) ** 2 for row in rows], axis=0)
    return Errors(bias, np.mean([row["variance"] for row in rows], axis=0))


def _mean_sem(values: NDArray) -> tuple[float, float]:
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))


def _line(label: str, errors: Errors, gradients: float) -> list[str]:
    mean, sem = _mean_sem(errors.mse())
    bias, variance = errors.squared_bias.mean(), errors.variance.mean()
    return [label, f"{bias:.2e}", f"{variance:.2e}", f"{mean:.2e} ± {sem:.0e}", f"{gradients:.1e}"]


def _against(mixture: NDArray, other: NDArray) -> str:
    """Ratio of two mean squared errors, and their paired difference over its standard error."""
    mean, sem = _mean_sem(mixture - other)
    return f"{mixture.mean() / other.mean():.2f} ({mean / sem:.1f})"


def _tests(found: Comparison) -> str:
    """Whether the best mixture has a smaller error than NUTS and ADVI, for several T."""
    lines = []
    for count in BUDGETS:
        best = found.best(count)
        mixture = found.mixtures[best].mse(count)
        against = [_against(mixture, other) for other in (found.nuts.mse(count), found.advi.mse())]
        lines.append((count, f"{best:g}", f"{mixture.mean():.2e}", *against))
    bias = np.diff([errors.squared_bias.mean() for errors in found.mixtures.values()])
    variance = np.diff([errors.variance.mean() for errors in found.mixtures.values()])
    return (
        f"\nSquared bias rises in {np.sum(bias > 0)} and variance falls in {np.sum(variance < 0)} "
        f"of {len(bias)} steps of lambda.\n\n"
        + markdown(("T", "best lambda", "MSE", "over NUTS's", "over ADVI's"), lines)
        + "\n"
    )


def report(title: str, comparisons: dict[str, Comparison]) -> str:
    """A table for each problem, and the tests of the claim."""
    text = (
        f"# {title}\n\nMeans over {FUNCTIONS} functions; T = {COMPONENTS} in each first table. "
        "In the second ratios of MSEs, with the paired difference over its standard error in brackets:\n"
        "beyond -3 it is significant even though lambda was chosen among so many.\n\n"
    )
    for problem, found in comparisons.items():
        lines = [
            _line("NUTS", found.nuts, found.gradients["NUTS"]),
            *(_line(f"{lam:g}", e, found.gradients[lam]) for lam, e in found.mixtures.items()),
            _line("ADVI", found.advi, np.nan),
        ]
        headings = ("lambda", "squared bias", "variance", "MSE ± SEM over functions", "gradients")
        text += f"## {problem}\n\n" + markdown(headings, lines) + _tests(found)
    return text


def figure(comparisons: dict[str, Comparison], path: Path) -> None:
    """A panel for each problem: MSE and its parts over lambda, NUTS and ADVI at its ends."""
    chart, panels = plt.subplots(
        1, len(comparisons), figsize=(4 * len(comparisons), 3.6), layout="constrained", squeeze=False
    )
    for axes, (problem, found) in zip(panels[0], comparisons.items(), strict=True):
        parts = list(found.mixtures.values())
        axes.plot(found.lambdas, [e.squared_bias.mean() for e in parts], "C0--", label="squared bias")
        axes.plot(found.lambdas, [e.variance.mean() for e in parts], "C1--", label="variance")
        mse = [_mean_sem(e.mse()) for e in parts]
        axes.errorbar(found.lambdas, *zip(*mse, strict=True), color="k", marker=".", label="MSE")
        axes.axhline(found.nuts.mse().mean(), color="C2", linestyle=":", label="MSE of NUTS")
        axes.axhline(found.advi.mse().mean(), color="C3", linestyle=":", label="MSE of ADVI")
        axes.set(xscale="log", yscale="log", xlabel="λ", title=problem)
        axes.set_xticks([1, 2, 3, 5, 10], ["1", "2", "3", "5", "10"], minor=False)
        axes.set_xticks([], minor=True)
    panels[0][0].set_ylabel(f"squared error of E[f], T = {COMPONENTS}")
    panels[0][-1].legend(fontsize="small")
    chart.savefig(path, dpi=150)
    plt.close(chart)


def study(
    name: str,
    title: str,
    problems: Sequence[str],
    lams: Sequence[float],
    options: argparse.Namespace,
    nodes: int | None = None,
) -> None:
    """Run all cells of the problems, and write JSON, table and figure."""
    cells: list[dict[str, Any]] = [
        {"problem": problem, "seed": seed, "method": method, "lam": lam, "draws": draws, "nodes": nodes}
        for problem in problems
        for seed in range(1, (options.seeds or 1) + 1)
        for method, lam, draws in [
            ("NUTS", None, iterations(options)),
            ("ADVI", None, ADVI_DRAWS),
            *(("mixture", lam, iterations(options)) for lam in lams),
        ]
    ]
    rows = run_cells(name, cells, run, options)
    comparisons = {problem: compare(problem, found) for (problem,), found in group(rows, "problem").items()}
    write_report(name, report(title, comparisons), options)
    figure(comparisons, options.out / f"{name}.png")


def main() -> None:
    """The three toy problems."""
    options = arguments(__doc__ or "").parse_args()
    study("interpolation", "Random functions of toy problems", tuple(TOYS), lambdas(options), options)


if __name__ == "__main__":
    main()
