"""What fresh draws say of q: the evidence, its error, the effective sample size, k-hat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp

from .optimize import mean_and_se
from .psis import pareto_smooth


@dataclass(frozen=True)
class ImportanceSample:
    """Draws ``z`` (S, D) in the unconstrained space, with log f, log q and the proposal's log density, (S,).

    The first ``n_q`` draws are of q, the others of the proposal's wider part. Weights are f over the
    proposal. ``log_evidence`` is the log of the mean weight and ``log_evidence_se`` its standard error by
    the delta method. ``ess`` is (sum w)^2 / sum w^2. ``elbo`` and ``elbo_se`` are the mean of log f - log q
    over the draws of q with a finite density, and its standard error. Smoothed weights serve the posterior's
    moments only; the evidence uses the raw ones, whose mean is unbiased.
    """

    z: NDArray
    log_p: NDArray
    log_q: NDArray
    log_proposal: NDArray
    n_q: int
    log_weight_smoothed: NDArray
    khat: float
    log_evidence: float
    log_evidence_se: float
    ess: float
    elbo: float
    elbo_se: float

    @property
    def log_weight(self) -> NDArray:
        return self.log_p - self.log_proposal

    def moments(self, weighted: bool = True) -> tuple[NDArray, NDArray]:
        """Mean (D,) and covariance (D, D) of the draws, self-normalised by smoothed weight or not."""
        weight = np.exp(self.log_weight_smoothed) if weighted else np.isfinite(self.log_p).astype(float)
        weight = weight / weight.sum()
        mean = weight @ self.z
        centred = self.z - mean
        return mean, (centred * weight[:, None]).T @ centred

    def resample(self, n: int, rng: np.random.Generator) -> NDArray:
        """Indices of ``n`` draws by systematic resampling on the smoothed weights, in random order."""
        weight = np.exp(self.log_weight_smoothed)
        edges = np.cumsum(weight)
        points = (rng.random() + np.arange(n)) * (edges[-1] / n)
        return rng.permutation(np.searchsorted(edges, points).clip(max=len(weight) - 1))


def importance_sample(
    z: NDArray, log_p: NDArray, log_q: NDArray, log_proposal: NDArray | None = None, n_q: int | None = None
) -> ImportanceSample:
    """Evidence and diagnostics; a draw with log_p = -inf has weight zero. The proposal is q by default."""
    log_proposal = log_q if log_proposal is None else log_proposal
    n_q = len(z) if n_q is None else n_q
    smoothed = pareto_smooth(log_p - log_proposal)
    log_evidence, se, ess = _evidence(log_p - log_proposal)
    elbo, elbo_se = mean_and_se(log_p[:n_q] - log_q[:n_q])
    return ImportanceSample(
        z=z,
        log_p=log_p,
        log_q=log_q,
        log_proposal=log_proposal,
        n_q=n_q,
        log_weight_smoothed=smoothed.log_weight,
        khat=smoothed.khat,
        log_evidence=log_evidence,
        log_evidence_se=se,
        ess=ess,
        elbo=elbo,
        elbo_se=elbo_se,
    )


def log_effective_size(log_weight: NDArray) -> float:
    """log (sum w)^2 / sum w^2 of weights given by their logarithms (S,); -inf where none is finite."""
    total = logsumexp(log_weight)
    return float(2.0 * total - logsumexp(2.0 * log_weight)) if np.isfinite(total) else -np.inf


def _evidence(log_weight: NDArray) -> tuple[float, float, float]:
    """Log of the mean weight, its standard error, and the effective sample size."""
    size, ess = len(log_weight), float(np.exp(log_effective_size(log_weight)))
    if ess == 0.0:
        return -np.inf, np.inf, 0.0
    relative_variance = max(1.0 / ess - 1.0 / size, 0.0) * size / max(size - 1, 1)
    return float(logsumexp(log_weight) - np.log(size)), float(np.sqrt(relative_variance)), ess


#: Share of the importance draws that come from the heavier-tailed part, and its degrees of freedom.
HEAVY_SHARE = 0.1
HEAVY_DF = 5.0


def log_with_share(share: float, log_main: NDArray | float, log_heavy: NDArray) -> NDArray:
    """log((1 - share) main + share heavy), from the logarithms of two densities."""
    with np.errstate(divide="ignore"):  # too few draws for a share of them: log 0
        return np.logaddexp(np.log1p(-share) + log_main, np.log(share) + log_heavy)


class DefensiveNoise(NamedTuple):
    """Base noise ``eps`` (S, D), the first ``n_q`` rows standard normal and the others Student t.

    ``log_ratio`` (S,) is the log density of the mixture over that of the standard normal. A map from noise
    to z with log density log q turns it into the proposal's: log q + log_ratio, for a flow as for a Gaussian.
    """

    eps: NDArray
    n_q: int
    log_ratio: NDArray


def defensive_noise(size: int, dim: int, rng: np.random.Generator) -> DefensiveNoise:
    """Noise for importance draws that no posterior with lighter tails than a Student t can surprise.

    The weights of f over a Gaussian grow without bound in any tail that is heavier than a Gaussian's, such
    as that of a log rate. With a share of heavier-tailed draws in the proposal they are bounded: defensive
    importance sampling (Hesterberg 1995), sampled in fixed proportions.
    """
    n_heavy = int(HEAVY_SHARE * size)
    eps = rng.standard_normal((size, dim))
    eps[size - n_heavy :] *= np.sqrt(HEAVY_DF / rng.chisquare(HEAVY_DF, (n_heavy, 1)))
    share = n_heavy / size
    squared = (eps * eps).sum(axis=1)
    log_normal = -0.5 * (squared + dim * np.log(2.0 * np.pi))
    log_heavy = (
        gammaln(0.5 * (HEAVY_DF + dim))
        - gammaln(0.5 * HEAVY_DF)
        - 0.5 * dim * np.log(HEAVY_DF * np.pi)
        - 0.5 * (HEAVY_DF + dim) * np.log1p(squared / HEAVY_DF)
    )
    return DefensiveNoise(eps, size - n_heavy, log_with_share(share, 0.0, log_heavy - log_normal))
