"""Adaptive importance sampling: rounds of draws that teach a Student mixture where the posterior is."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from .approximation import DrawnFit
from .importance import ImportanceSample, importance_sample, log_effective_size
from .psis import pareto_smooth
from .student_mixture import StudentMixture, reinforced, scattered, towards
from .whitening import WhitenedTarget

logger = logging.getLogger("dais_stan")

COMPONENTS, DRAWS, MAX_ROUNDS = 16, 10_000, 10
#: Components that each round adds where the mixture falls furthest short.
REINFORCEMENTS = 4
#: Draws of so many rounds are kept; each is weighed against the mixture of their proposals.
MEMORY = 4
#: Before so many rounds the components are scattered anew, since the first weights are the worst.
SCATTER_ROUNDS = 3
#: Adaptation ends early when more than this share of a round's draws is effective, with k-hat below this.
ENOUGH_SHARE, ENOUGH_KHAT = 0.5, 0.5


@dataclass
class _Round:
    """Draws u (n, D), log f, and log q of the mixture that they came from."""

    u: NDArray
    log_f: NDArray
    mixture: StudentMixture

    @cached_property
    def _log_weight(self) -> NDArray:
        return self.log_f - self.mixture.log_prob(self.u)

    @property
    def effective_share(self) -> float:
        """Effective number of the draws over their number."""
        return float(np.exp(log_effective_size(self._log_weight))) / len(self.u)

    @property
    def enough(self) -> bool:
        """Whether the mixture need not get any better."""
        return self.effective_share > ENOUGH_SHARE and pareto_smooth(self._log_weight).khat < ENOUGH_KHAT


def adapt(
    density: WhitenedTarget,
    starts: Sequence[tuple[NDArray, NDArray]],
    rng: np.random.Generator,
) -> tuple[StudentMixture, int]:
    """A mixture adapted to ``density``, and the rounds it took.

    ``starts`` are Gaussians (mean (D,), factor (D, D)) in the density's coordinates, one or more.
    """
    means, factors = (np.array(part) for part in zip(*starts, strict=True))
    mixture = StudentMixture(np.full(len(means), 1.0 / len(means)), means, factors)
    rounds: list[_Round] = []
    for number in range(MAX_ROUNDS):
        u = mixture.sample(DRAWS, rng)
        rounds = [*rounds[1 - MEMORY :], _Round(u, density.log_density(u), mixture)]
        share = 100 * rounds[-1].effective_share
        logger.info("round %d: %d components, %.1f %% effective", number, len(mixture.weights), share)
        if number > SCATTER_ROUNDS and rounds[-1].enough:
            break
        mixture = _learn(rounds, mixture, number < SCATTER_ROUNDS, rng)
    return mixture, number + 1


def _learn(
    rounds: list[_Round], mixture: StudentMixture, anew: bool, rng: np.random.Generator
) -> StudentMixture:
    """The mixture moved towards the draws of the rounds, each weighed against all their proposals."""
    u = np.concatenate([past.u for past in rounds])
    log_f = np.concatenate([past.log_f for past in rounds])
    log_q = logsumexp([past.mixture.log_prob(u) for past in rounds], axis=0) - np.log(len(rounds))
    weight = np.exp(pareto_smooth(log_f - log_q).log_weight)
    weight /= weight.sum()
    covariance = np.cov(u.T, aweights=weight).reshape(u.shape[1], u.shape[1])
    if anew:
        mixture = scattered(u, weight, covariance, COMPONENTS, rng)
    mixture = towards(mixture, u, weight, covariance, steps=10)
    return reinforced(mixture, u, log_f, weight, covariance, REINFORCEMENTS)


def importance_of_mixture(
    density: WhitenedTarget, mixture: StudentMixture, count: int, rng: np.random.Generator
) -> ImportanceSample:
    """Fresh draws of the mixture with their weights: independent of those it was adapted on."""
    u = mixture.sample(count, rng)
    log_q = mixture.log_prob(u) - density.whitening.log_det
    z = density.whitening.to_z(u)
    return importance_sample(z, density.target.log_density(z), log_q)


@dataclass
class MixtureFit(DrawnFit):
    """A fit whose draws are importance-weighted draws of a Student mixture, in ``whitening``'s coordinates.

    ``family`` and ``params`` are those of the Gaussian from which the mixture was adapted. The mixture is
    a proposal and too wide as an approximation, so ``draws`` are weighted whatever k-hat is, and ``mean``,
    ``sd`` and ``covariance`` are those of the weighted draws.
    """

    mixture: StudentMixture = field(kw_only=True)

    @property
    def weighted(self) -> bool:
        return True

    def log_prob(self, z: NDArray) -> NDArray:
        """Log density of the mixture at unconstrained points z, (N, D) to (N,) or (D,) to a scalar."""
        values = self.mixture.log_prob(self.whitening.to_u(np.atleast_2d(z))) - self.whitening.log_det
        return values if np.ndim(z) == 2 else values[0]

    def _unweighted(self, n: int, rng: np.random.Generator) -> tuple[NDArray, NDArray]:
        u = self.mixture.sample(n, rng)
        return self.whitening.to_z(u), self.mixture.log_prob(u) - self.whitening.log_det
