"""What the studies of infinite mixtures share: targets with known expectations, and mixtures of them.

The functions are the random sums of sinusoids of Lange et al. (2022), section 5, whose expectation is read
off a characteristic function.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from study import Cell, Row, run_cells

import infmix
from dais_stan import posteriordb
from dais_stan.resources import stan_models
from dais_stan.target import Target
from infmix.components import Components
from infmix.mixture import Mixture

#: The published grid: evenly spaced in the logarithm from sampling to 10.
LAMBDAS = tuple(np.logspace(0, 1, 21).round(3).tolist())
#: With more of them near sampling, where the errors change fastest.
QUICK_LAMBDAS = (1.0, 1.259, 1.585, 1.995, 3.162, 5.012, 10.0)
FUNCTIONS = 200
CHAINS = 4


@dataclass(frozen=True)
class Toy:
    """A target whose normaliser and characteristic function E[exp(i k . x)], (..., D) to (...), are known."""

    program: str
    characteristic: Callable[[NDArray], NDArray]
    log_evidence: float = 0.0
    data: dict[str, Any] | None = None

    def target(self) -> Target:
        return Target.from_stan(stan_models() / f"{self.program}.stan", data=self.data)

    def expectation(self, functions: infmix.Sinusoids, amplitudes: NDArray) -> NDArray:
        """E[f(x)] of each function with these ``amplitudes`` (W, ...): (F, ...)."""
        waves = np.exp(1j * functions.phases) * self.characteristic(functions.waves)
        return np.imag(waves) @ amplitudes


def _banana(k: NDArray) -> NDArray:
    """y given x is N(x^2/4, 1/4); what is left is E[exp(i u x + i v x^2/4)] for x ~ N(0, 2)."""
    u, v = k[..., 0], k[..., 1]
    return np.exp(-(v**2) / 8 - u**2 / (1 - 1j * v)) / np.sqrt(1 - 1j * v)


CIGAR = np.array([[1.0, 0.99], [0.99, 1.0]])


def _cigar(k: NDArray) -> NDArray:
    return np.exp(-0.5 * np.einsum("...i,ij,...j->...", k, CIGAR, k))


def _laplace_mixture(k: NDArray) -> NDArray:
    k = k[..., 0]
    return (0.4 * np.exp(-1.5j * k) + 0.6 * np.exp(1.5j * k)) / (1 + (0.75 * k) ** 2)


TOYS = {
    "banana": Toy("banana", _banana, float(np.log(2 * np.pi) + 0.5 * np.log(0.5))),
    "cigar": Toy("gaussian", _cigar, data={"D": 2, "m": [0.0, 0.0], "S": CIGAR.tolist()}),
    "laplace_mixture": Toy("laplace_mixture", _laplace_mixture),
}


def lambdas(options: argparse.Namespace) -> tuple[float, ...]:
    return LAMBDAS if options.full else QUICK_LAMBDAS


def iterations(options: argparse.Namespace) -> int:
    """Draws of psi for each chain: with --full as many in all, 10,000, as the published figures use."""
    return options.iterations or (2500 if options.full else 500)


@cache
def open_problem(problem: str) -> Target:
    """A toy, or a posterior of posteriordb by its name there: with our own data, or POSTERIOR_DB_PATH's."""
    if problem in TOYS:
        return TOYS[problem].target()
    return posteriordb.find(problem, posteriordb.open_folder(None)).target()


@cache
def _guess(problem: str, seed: int) -> infmix.Guess:
    return infmix.mean_field_guess(open_problem(problem), seed)


def sample_mixture(cell: Cell) -> Mixture:
    """The mixture of a cell: ``problem``, ``lam``, ``seed``, ``draws`` of each chain, perhaps ``nodes``."""
    return infmix.sample(
        open_problem(cell["problem"]),
        cell["lam"],
        chains=CHAINS,
        nodes=cell.get("nodes") if cell["lam"] > 1.0 else None,
        seed=cell["seed"],
        guess=_guess(cell["problem"], cell["seed"]),
        iter_warmup=min(1000, cell["draws"]),
        iter_sampling=cell["draws"],
        parallel_chains=1,
    )


def random_functions(dim: int, alpha: float = -1.0) -> infmix.Sinusoids:
    """The functions that all runs in D dimensions are judged by."""
    return infmix.Sinusoids.random(FUNCTIONS, dim, alpha, np.random.default_rng(dim))


def shuffled_components(mixture: Mixture) -> Components:
    """The components of all chains in random order: neighbours are independent."""
    order = np.random.default_rng(mixture.seed).permutation(len(mixture.components))
    return mixture.components.take(order)


def smoothed_minimum(lambdas: NDArray, error: NDArray, sem: NDArray) -> float:
    """Where the errors (L,), smoothed over log lambda with weights 1 / sem^2, are least.

    The kernel is a Gaussian with half the grid's mean step as its standard deviation.
    """
    log_lambda = np.log(lambdas)
    fine = np.linspace(log_lambda[0], log_lambda[-1], 401)
    distance = (fine[:, None] - log_lambda) / (0.5 * np.diff(log_lambda).mean())
    weight = np.exp(-0.5 * distance**2) / sem**2
    return float(np.exp(fine[np.argmin((weight @ error) / weight.sum(axis=1))]))


#: T of ``kl_error.py``.
BUDGETS = (1, 2, 5, 20, 100)


def run_divergences(cell: Cell) -> Row:
    """The two sides of a toy's mixture, and its divergence with a few components, in nats."""
    mixture = sample_mixture(cell)
    log_evidence = TOYS[cell["problem"]].log_evidence
    kl = infmix.expected_kl(mixture, log_evidence)
    return {
        "kl": float(kl.value),
        "kl_se": float(kl.se),
        "information": infmix.mutual_information(mixture)._asdict(),
        "fisher": infmix.fisher_information(mixture)._asdict(),
        "errors": [infmix.kl_error(mixture, count, log_evidence)._asdict() for count in BUDGETS],
    }


def divergence_rows(options: argparse.Namespace) -> list[Row]:
    """Mixtures of two toys over lambda, which ``pareto.py`` and ``kl_error.py`` share."""
    cells = [
        {"problem": problem, "lam": lam, "seed": seed, "draws": iterations(options)}
        for problem in ("banana", "laplace_mixture")
        for seed in range(1, (options.seeds or 1) + 1)
        for lam in dict.fromkeys((1.06, 1.122, *lambdas(options)[1:], 31.6, 100.0))
    ]
    return run_cells("divergences", cells, run_divergences, options)
