"""The importance-weighted bound of N particles, and draws by sampling importance resampling."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..families.base import Family
from .elbo import Density, Estimate

#: Candidates evaluated in one call when drawing by resampling.
BLOCK = 2**16


def group_weights(log_weight: NDArray) -> tuple[NDArray, NDArray]:
    """Bound and normalised weights of groups of particles.

    ``log_weight`` is (B, N). Returns log of the mean weight of each group (B,), -inf where a group has no
    weight at all, and the weights divided by their group's sum, (B, N), which are zero in such a group.
    """
    top = log_weight.max(axis=1, keepdims=True)
    weight = np.exp(log_weight - np.where(np.isfinite(top), top, 0.0))
    total = weight.sum(axis=1, keepdims=True)
    usable = total > 0.0
    bound = np.full(len(log_weight), -np.inf)
    bound[usable[:, 0]] = (np.log(total[usable]) + top[usable]) - np.log(log_weight.shape[1])
    return bound, weight / np.where(usable, total, 1.0)


def iwelbo(
    density: Density, family: Family, params: NDArray, eps: NDArray, doubly_reparametrised: bool = True
) -> Estimate:
    """E log[(1/N) sum_i f(z_i) / q(z_i)], averaged over B groups of N particles, and its gradient.

    ``eps`` is the noise, (B, N, D). The bound is Zenn & Bamler (2024), equation 3; with N = 1 it is the ELBO.
    The gradient is that of the value, or with ``doubly_reparametrised`` the estimator of Tucker et al.
    (2019): the same expectation from the path through z alone, with squared weights, whose variance falls
    with N and is zero where q equals the posterior. A particle at which the density is not finite has
    weight zero; a group of nothing else is left out of the mean; with no group left the value is -inf and
    the gradient zero.
    """
    groups, particles, dim = eps.shape
    sample = family.sample(params, eps.reshape(groups * particles, dim))
    value, gradient = density.log_density_gradient(sample.z)
    rejected = int(np.count_nonzero(~np.isfinite(value)))
    bound, weight = group_weights((value - sample.log_q).reshape(groups, particles))
    usable = np.isfinite(bound)
    kept = int(usable.sum())
    if kept == 0:
        return Estimate(-np.inf, np.zeros(family.n_params), rejected)
    share = weight.reshape(-1) / kept
    if doubly_reparametrised:
        path = gradient - family.score(params, sample.tape)
        z_bar, log_q_bar = (share * weight.reshape(-1))[:, None] * path, None
    else:
        z_bar, log_q_bar = share[:, None] * gradient, -share
    pulled = family.pullback(params, sample.tape, z_bar, log_q_bar)
    return Estimate(float(bound[usable].mean()), pulled, rejected)


def resampled_draws(
    density: Density, family: Family, params: NDArray, candidates: int, draws: int, rng: np.random.Generator
) -> NDArray:
    """Draws (R, D) by sampling importance resampling: each one of C fresh candidates from q, by its weight.

    These are the draws whose density the bound of C particles measures (Zenn & Bamler 2024, section 2).
    A set of candidates without any weight is drawn again, at most ten times.

    Raises ValueError where ``candidates`` or ``draws`` is below 1, FloatingPointError where the density is
    finite at no candidate.
    """
    if candidates < 1 or draws < 1:
        raise ValueError(f"candidates and draws must be at least 1, found {candidates} and {draws}")
    chosen = np.empty((draws, family.dim))
    rows = max(1, BLOCK // candidates)
    for begin in range(0, draws, rows):
        block = chosen[begin : begin + rows]
        missing = np.arange(len(block))
        for _ in range(10):
            picked, usable = _pick(density, family, params, candidates, len(missing), rng)
            block[missing[usable]] = picked[usable]
            missing = missing[~usable]
            if not len(missing):
                break
        else:
            raise FloatingPointError(f"the density is finite at none of {candidates} candidates from q")
    return chosen


def _pick(
    density: Density, family: Family, params: NDArray, candidates: int, draws: int, rng: np.random.Generator
) -> tuple[NDArray, NDArray]:
    """One weighted candidate from each of ``draws`` sets, and whether the set had any weight."""
    sample = family.sample(params, rng.standard_normal((draws * candidates, family.dim)))
    log_weight = density.log_density_gradient(sample.z)[0] - sample.log_q
    # The largest of log weights plus Gumbel noise is a draw from their softmax.
    noisy = log_weight.reshape(draws, candidates) + rng.gumbel(size=(draws, candidates))
    best = noisy.argmax(axis=1)
    rows = np.arange(draws)
    z = sample.z.reshape(draws, candidates, family.dim)[rows, best]
    return z, np.isfinite(noisy[rows, best])
