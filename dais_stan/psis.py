"""Pareto-smoothed importance sampling through ArviZ, the same on both of its generations."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import logsumexp

from .arviz_io import LEGACY_ARVIZ, arviz

#: Log weights that differ by less than this are constant: q is the posterior, up to rounding.
CONSTANT_RANGE = 1e-6
#: Fewer finite weights than this say nothing of a tail.
MIN_DRAWS = 25
#: Kolmogorov distance times sqrt(M) beyond which a tail of M weights is not Pareto (a 5 % test's).
DISTANCE = 1.36


#: Above this k-hat importance weights are not to be trusted (Vehtari et al. 2024).
KHAT_LIMIT = 0.7


class Smoothed(NamedTuple):
    """Normalised smoothed log weights (S,) and Pareto k-hat (Vehtari et al. 2024)."""

    log_weight: NDArray
    khat: float


def pareto_smooth(log_weight: NDArray) -> Smoothed:
    """Smooth importance log weights log f(z) - log q(z), shape (S,), S at least 1.

    k-hat is 0 for constant weights, which are as good as weights can be, and infinite where there are too
    few finite ones to tell. A weight of -inf stays: that draw has no mass. Above ``KHAT_LIMIT`` the Pareto
    tail does not describe the weights, and replacing them by its quantiles invents large ones; they are then
    truncated at sqrt(S) times their mean instead (Ionides 2008).
    """
    finite = np.isfinite(log_weight)
    if finite.sum() < MIN_DRAWS:
        return Smoothed(_normalise(log_weight), np.inf)
    used = log_weight[finite]
    if np.ptp(used) < CONSTANT_RANGE:
        return Smoothed(_normalise(log_weight), 0.0)
    smoothed, khat = _fitting_tail(used - used.max())
    if khat > KHAT_LIMIT:
        return Smoothed(_normalise(_truncate(log_weight)), khat)
    out = np.full(len(log_weight), -np.inf)
    out[finite] = smoothed
    return Smoothed(_normalise(out), khat)


def _fitting_tail(log_weight: NDArray) -> tuple[NDArray, float]:
    """Smooth the usual tail of 3 sqrt(S) weights, or half or a quarter of it where the Pareto does not fit.

    Weights are a smooth function of z. At its maximum many draws share almost one weight, and a tail that
    begins just below such a pile has a fitted k-hat of 5 though the weights are as good as constant. The
    Kolmogorov distance between the tail and its fitted quantiles tells: beyond DISTANCE / sqrt(M) the tail
    of M weights is not Pareto, and a shorter one is.
    """
    for relative_efficiency in (1.0, 4.0, 16.0):  # ArviZ takes 3 sqrt(S / relative efficiency) weights
        smoothed, khat = _psislw(log_weight, relative_efficiency)
        length = int(np.ceil(min(len(log_weight) / 5, 3 * np.sqrt(len(log_weight) / relative_efficiency))))
        order = np.argsort(log_weight)
        tail, lowest = order[-length:], order[0]
        # Smoothing leaves the weights below the tail alone: they give the constant between the two scales.
        fitted = smoothed[tail] - smoothed[lowest] + log_weight[lowest]
        if stats.ks_2samp(log_weight[tail], fitted).statistic * np.sqrt(length) < DISTANCE:
            break
    return smoothed, khat


def _truncate(log_weight: NDArray) -> NDArray:
    size = len(log_weight)
    return np.minimum(log_weight, logsumexp(log_weight) - 0.5 * np.log(size))


def _normalise(log_weight: NDArray) -> NDArray:
    total = logsumexp(log_weight)
    if not np.isfinite(total):
        return np.full(len(log_weight), -np.log(len(log_weight)))
    return np.asarray(log_weight - total)


def _psislw(log_weight: NDArray, relative_efficiency: float) -> tuple[NDArray, float]:
    with warnings.catch_warnings():
        # ArviZ warns of a large k-hat in terms of its own functions; the caller reports k-hat itself.
        warnings.simplefilter("ignore")
        if LEGACY_ARVIZ:
            smoothed, khat = arviz.psislw(log_weight, reff=relative_efficiency)
        else:
            from arviz_stats.base import array_stats

            # ArviZ 1.x takes the log likelihood to be left out, the negative of a log weight.
            smoothed, khat = array_stats.psislw(-log_weight, r_eff=relative_efficiency)
    return np.asarray(smoothed), float(khat)
