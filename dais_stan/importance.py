"""What fresh draws from q say of it: the evidence, its error, the effective sample size, k-hat."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from .psis import pareto_smooth


@dataclass(frozen=True)
class ImportanceSample:
    """Draws ``z`` (S, D) from q in the unconstrained space, with log f and log q at each, shape (S,).

    ``log_evidence`` is the log of the mean weight and ``log_evidence_se`` its standard error by the delta
    method. ``ess`` is (sum w)^2 / sum w^2. ``elbo`` and ``elbo_se`` are the mean log weight over the draws
    with a finite density and its standard error. Smoothed weights serve the posterior's moments only; the
    evidence uses the raw ones, whose mean is unbiased.
    """

    z: NDArray
    log_p: NDArray
    log_q: NDArray
    log_weight_smoothed: NDArray
    khat: float
    log_evidence: float
    log_evidence_se: float
    ess: float
    elbo: float
    elbo_se: float

    @property
    def log_weight(self) -> NDArray:
        return self.log_p - self.log_q

    def resample(self, n: int, rng: np.random.Generator) -> NDArray:
        """Indices of ``n`` draws by systematic resampling on the smoothed weights, in random order."""
        weight = np.exp(self.log_weight_smoothed)
        edges = np.cumsum(weight)
        points = (rng.random() + np.arange(n)) * (edges[-1] / n)
        return rng.permutation(np.searchsorted(edges, points).clip(max=len(weight) - 1))


def importance_sample(z: NDArray, log_p: NDArray, log_q: NDArray) -> ImportanceSample:
    """Evidence and diagnostics from draws of q; a draw with log_p = -inf has weight zero."""
    log_weight = log_p - log_q
    smoothed = pareto_smooth(log_weight)
    size = len(log_weight)
    finite = log_weight[np.isfinite(log_weight)]
    if not len(finite):
        return ImportanceSample(
            z, log_p, log_q, smoothed.log_weight, np.inf, -np.inf, np.inf, 0.0, -np.inf, np.inf
        )
    total = logsumexp(finite)
    ess = float(np.exp(2.0 * total - logsumexp(2.0 * finite)))
    relative_variance = max(1.0 / ess - 1.0 / size, 0.0) * size / max(size - 1, 1)
    return ImportanceSample(
        z=z,
        log_p=log_p,
        log_q=log_q,
        log_weight_smoothed=smoothed.log_weight,
        khat=smoothed.khat,
        log_evidence=float(total - np.log(size)),
        log_evidence_se=float(np.sqrt(relative_variance)),
        ess=ess,
        elbo=float(finite.mean()),
        elbo_se=float(finite.std() / np.sqrt(len(finite))),
    )
