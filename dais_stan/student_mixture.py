"""A mixture of Student t distributions, fitted to weighted draws: a proposal that learns.

No gradient is needed: each round draws from the mixture, weighs the draws by the target, and moves the
mixture towards them (Cappé, Douc, Guillin, Marin & Robert 2008, Adaptive importance sampling in general
mixture classes). Several components follow a bent or skewed posterior, or several modes, and the
Student tails keep the weights bounded.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp

#: Degrees of freedom of every component.
DF = 5.0
#: A component with less than this share of the weight is dropped.
LEAST_SHARE = 1e-3
#: A new component takes its width from one point in so many, and from the whole covariance this share of it
#: while these tell little; it has this share of the mixture at least.
NEAREST_SHARE, LOCAL, LEAST_NEW_SHARE = 100, 0.05, 0.01
#: A component's covariance is drawn to this share of the whole covariance while few draws tell of it.
SHRINK_TO = 0.3


@dataclass(frozen=True)
class StudentMixture:
    """sum_k weight_k t(DF, mean_k, factor_k factor_k^T): (K,), (K, D) and lower-triangular (K, D, D)."""

    weights: NDArray
    means: NDArray
    factors: NDArray

    @property
    def dim(self) -> int:
        return self.means.shape[1]

    def sample(self, n: int, rng: np.random.Generator) -> NDArray:
        """Independent draws (n, D)."""
        component = rng.choice(len(self.weights), size=n, p=self.weights)
        noise = rng.standard_normal((n, self.dim)) * np.sqrt(DF / rng.chisquare(DF, (n, 1)))
        out = np.empty_like(noise)
        for k, (mean, factor) in enumerate(zip(self.means, self.factors, strict=True)):
            mine = component == k
            out[mine] = mean + noise[mine] @ factor.T
        return out

    def log_prob(self, u: NDArray) -> NDArray:
        """Log density at u (N, D), shape (N,)."""
        return logsumexp(self.log_parts(u)[0], axis=1)

    def log_parts(self, u: NDArray) -> tuple[NDArray, NDArray]:
        """Log weight times density of each component, and squared Mahalanobis distances, both (N, K)."""
        dim = self.dim
        constant = gammaln(0.5 * (DF + dim)) - gammaln(0.5 * DF) - 0.5 * dim * np.log(DF * np.pi)
        parts, distances = np.empty((2, len(u), len(self.weights)))
        for k, (mean, factor) in enumerate(zip(self.means, self.factors, strict=True)):
            # The inverse of a small triangular factor, once, is cheaper than a solve for every draw.
            standard = (u - mean) @ np.linalg.inv(factor).T
            distances[:, k] = np.einsum("ij,ij->i", standard, standard)
            log_det = np.log(np.diagonal(factor)).sum()
            parts[:, k] = np.log(self.weights[k]) + constant - log_det
        parts -= 0.5 * (DF + dim) * np.log1p(distances / DF)
        return parts, distances


def scattered(
    u: NDArray, weight: NDArray, covariance: NDArray, components: int, rng: np.random.Generator
) -> StudentMixture:
    """Components at ``components`` of the points u (N, D), chosen by weight (N,), half as wide as all."""
    means = u[rng.choice(len(u), size=components, p=weight)]
    factor = np.linalg.cholesky(0.5 * covariance + 1e-9 * np.eye(u.shape[1]))
    return StudentMixture(
        np.full(components, 1.0 / components), means, np.repeat(factor[None], components, 0)
    )


def towards(
    mixture: StudentMixture, u: NDArray, weight: NDArray, covariance: NDArray, steps: int
) -> StudentMixture:
    """``steps`` of expectation maximisation on points u (N, D) with weights (N,) that sum to one.

    The updates are those of the t mixture (Peel & McLachlan 2000, equations 29-31) with each point counted
    by its weight. A component for which few draws tell is drawn to ``covariance`` (D, D), that of all points.
    """
    dim = u.shape[1]
    for _ in range(steps):
        parts, distances = mixture.log_parts(u)
        share = np.exp(parts - logsumexp(parts, axis=1, keepdims=True)) * weight[:, None]
        pull = share * (DF + dim) / (DF + distances)
        total = share.sum(axis=0)
        kept = [k for k in range(len(total)) if total[k] > LEAST_SHARE]
        means, factors = [], []
        for k in kept:
            mean = pull[:, k] @ u / pull[:, k].sum()
            centred = u - mean
            spread = (centred * pull[:, k, None]).T @ centred / total[k]
            ess = total[k] ** 2 / (share[:, k] ** 2).sum()
            few = dim / (ess + dim)
            spread = (1.0 - few) * spread + few * SHRINK_TO * covariance
            means.append(mean)
            factors.append(np.linalg.cholesky(spread + 1e-9 * np.eye(dim)))
        mixture = StudentMixture(total[kept] / total[kept].sum(), np.array(means), np.array(factors))
    return mixture


def reinforced(
    mixture: StudentMixture, u: NDArray, log_f: NDArray, weight: NDArray, covariance: NDArray, more: int
) -> StudentMixture:
    """The mixture with ``more`` components where it falls furthest short of f, one after the other.

    Incremental mixture importance sampling (Raftery & Bao 2010): the next component stands at the point of
    largest f / q among u (N, D), as wide as the nearest points around it (by the Mahalanobis distance of
    ``covariance``) with their ``weight`` (N,), and as heavy as they are.
    """
    dim = u.shape[1]
    standard = np.linalg.solve(np.linalg.cholesky(covariance + 1e-9 * np.eye(dim)), u.T).T
    nearest = max(len(u) // NEAREST_SHARE, 10 * dim)
    for _ in range(more):
        worst = int(np.argmax(log_f - mixture.log_prob(u)))
        distance = ((standard - standard[worst]) ** 2).sum(axis=1)
        near = np.argpartition(distance, nearest)[:nearest]
        total = weight[near].sum()
        centred = u[near] - u[worst]
        spread = (centred * weight[near, None]).T @ centred / total
        few = dim / (1.0 / ((weight[near] / total) ** 2).sum() + dim)
        spread = (1.0 - few) * spread + few * LOCAL * covariance
        share = max(total, LEAST_NEW_SHARE) / (1.0 + max(total, LEAST_NEW_SHARE))
        mixture = StudentMixture(
            np.append(mixture.weights * (1.0 - share), share),
            np.vstack([mixture.means, u[worst]]),
            np.concatenate([mixture.factors, np.linalg.cholesky(spread + 1e-9 * np.eye(dim))[None]]),
        )
    return mixture
