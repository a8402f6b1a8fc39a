"""The evidence lower bound of reverse-KL variational inference."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ..families.base import Family


class Density(Protocol):
    """A log density with gradient on batches (N, D): a Target, or a Target in whitened coordinates."""

    dim: int

    def log_density_gradient(self, z: NDArray) -> tuple[NDArray, NDArray]: ...


class Estimate(NamedTuple):
    """An objective at one parameter vector: value, gradient (n_params,), and how many draws were rejected."""

    value: float
    gradient: NDArray
    rejected: int


def elbo(
    density: Density, family: Family, params: NDArray, eps: NDArray, stick_the_landing: bool = True
) -> Estimate:
    """E_q[log f(z) - log q(z)] over the noise ``eps`` (N, D) and its reparametrisation gradient.

    The bound is Zenn & Bamler (2024), equation 2. With ``stick_the_landing`` the score of q is dropped
    from the gradient (Roeder, Wu & Duvenaud 2017): the expectation is the same, and the variance is zero
    where q equals the posterior. A draw at which the density is not finite is left out of the mean; with
    none left the value is -inf and the gradient zero.
    """
    sample = family.sample(params, eps)
    value, gradient = density.log_density_gradient(sample.z)
    log_weight = value - sample.log_q
    total = float(log_weight.sum())
    kept = len(eps)
    if total == -np.inf:
        finite = np.isfinite(log_weight)
        kept = int(finite.sum())
        if kept == 0:
            return Estimate(-np.inf, np.zeros(family.n_params), len(eps))
        total = float(log_weight[finite].sum())
    if stick_the_landing:
        z_bar, log_q_bar = (gradient - family.score(params, sample.tape)) / kept, None
    else:
        z_bar, log_q_bar = gradient / kept, np.full(len(eps), -1.0 / kept)
    if kept < len(eps):
        z_bar[~finite] = 0.0
        if log_q_bar is not None:
            log_q_bar[~finite] = 0.0
    return Estimate(total / kept, family.pullback(params, sample.tape, z_bar, log_q_bar), len(eps) - kept)
