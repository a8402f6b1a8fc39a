"""Pareto-smoothed importance sampling through ArviZ, the same on both of its generations."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from .arviz_io import arviz

#: Log weights that differ by less than this are constant: q is the posterior, up to rounding.
CONSTANT_RANGE = 1e-6
#: Fewer finite weights than this say nothing of a tail.
MIN_DRAWS = 25


class Smoothed(NamedTuple):
    """Normalised smoothed log weights (S,) and Pareto k-hat (Vehtari et al. 2024)."""

    log_weight: NDArray
    khat: float


def pareto_smooth(log_weight: NDArray) -> Smoothed:
    """Smooth importance log weights log f(z) - log q(z), shape (S,), S at least 1.

    k-hat is 0 for constant weights, which are as good as weights can be, and infinite where there are too
    few finite ones to tell. A weight of -inf stays: that draw has no mass.
    """
    finite = np.isfinite(log_weight)
    if finite.sum() < MIN_DRAWS:
        return Smoothed(_normalise(log_weight), np.inf)
    used = log_weight[finite]
    if np.ptp(used) < CONSTANT_RANGE:
        return Smoothed(_normalise(log_weight), 0.0)
    smoothed, khat = _psislw(used - used.max())
    out = np.full(len(log_weight), -np.inf)
    out[finite] = smoothed
    return Smoothed(_normalise(out), khat)


def _normalise(log_weight: NDArray) -> NDArray:
    total = logsumexp(log_weight)
    if not np.isfinite(total):
        return np.full(len(log_weight), -np.log(len(log_weight)))
    return np.asarray(log_weight - total)


def _psislw(log_weight: NDArray) -> tuple[NDArray, float]:
    with warnings.catch_warnings():
        # ArviZ warns of a large k-hat in terms of its own functions; the caller reports k-hat itself.
        warnings.simplefilter("ignore")
        if hasattr(arviz, "psislw"):
            smoothed, khat = arviz.psislw(log_weight)
        else:
            from arviz_stats.base import array_stats

            # ArviZ 1.x takes the log likelihood to be left out, the negative of a log weight.
            smoothed, khat = array_stats.psislw(-log_weight)
    return np.asarray(smoothed), float(khat)
