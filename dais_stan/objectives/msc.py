"""Markovian score climbing: q follows the posterior's moments along a chain of conditional resampling."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from ..families.base import Family
from .elbo import Estimate


class ValuedDensity(Protocol):
    """A log density on batches (N, D) -> (N,)."""

    dim: int

    def log_density(self, z: NDArray) -> NDArray: ...


class Climb(NamedTuple):
    """One iteration: the ascent direction, and where the chains (C, D) are now."""

    estimate: Estimate
    chains: NDArray


def msc(
    density: ValuedDensity,
    family: Family,
    params: NDArray,
    chains: NDArray,
    eps: NDArray,
    uniform: NDArray,
) -> Climb:
    """One step of each chain by conditional importance sampling, and the gradient of E_p[log q].

    Naesseth, Lindsten & Blei (2020). Each of C chains weighs its present point and N - 1 draws of q by f / q,
    moves to one of them by weight, and contributes the weighted mean of grad log q(z; params) over all N
    (z and weights held constant). All chains share q. The value, the weighted mean of log q, estimates the
    objective: minus the inclusive divergence KL(p || q), up to the entropy of p.

    ``chains`` is (C, D), ``eps`` the proposals' standard normal noise (C, N - 1, D), ``uniform`` (C,) in
    [0, 1) picks. A candidate where the density is not finite has weight zero; a chain without any weight
    stays and is left out; where all are, the value is -inf and the gradient zero.

    Raises ValueError for N = 1.
    """
    count, particles, dim = len(chains), eps.shape[1] + 1, family.dim
    if particles < 2:
        raise ValueError(
            "particles must be at least 2 for method 'msc': with 1 nothing is proposed beside the chain's "
            "present point, so that the chain never moves and q shrinks onto its start"
        )
    noise = np.concatenate((family.noise(params, chains)[:, None], eps), axis=1)
    sample = family.sample(params, noise.reshape(count * particles, dim))
    z = sample.z.reshape(count, particles, dim)
    z[:, 0] = chains  # without the rounding of the way there and back
    value = density.log_density(sample.z).reshape(count, particles)
    log_q = sample.log_q.reshape(count, particles)
    usable = np.isfinite(value).any(axis=1)
    rejected = int(np.count_nonzero(~np.isfinite(value)))
    if not usable.any():
        return Climb(Estimate(-np.inf, np.zeros(family.n_params), rejected), chains)
    weight = np.zeros((count, particles))
    weight[usable] = softmax(value[usable] - log_q[usable], axis=1)
    share = weight / usable.sum()
    flat = share.reshape(-1)
    # The path's derivative, subtracted from the total one, leaves the score in the parameters at fixed z.
    score = family.score(params, sample.tape)
    gradient = family.pullback(params, sample.tape, -flat[:, None] * score, flat)
    picked = (weight.cumsum(axis=1) <= uniform[:, None] * weight.sum(axis=1, keepdims=True)).sum(axis=1)
    picked = np.where(usable, np.minimum(picked, particles - 1), 0)
    return Climb(Estimate(float((share * log_q).sum()), gradient, rejected), z[np.arange(count), picked])
