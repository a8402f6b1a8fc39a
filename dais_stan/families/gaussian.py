"""Gaussian families: mean-field (diagonal covariance) and full-rank (Cholesky factor)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.linalg.blas import dtrsm

from .base import Sample

LOG_2PI = float(np.log(2.0 * np.pi))

#: A full-rank factor above this size (in bytes) is refused: Adam keeps several copies of it.
MAX_FACTOR_BYTES = 2**30


def _log_normal(x: NDArray) -> NDArray:
    """Log density of the standard normal at the rows of x (N, D), shape (N,)."""
    return -0.5 * ((x * x).sum(axis=1) + x.shape[1] * LOG_2PI)


class _MeanFieldTape(NamedTuple):
    eps: NDArray
    sd: NDArray


class MeanField:
    """q(z) = prod_i N(z_i; mu_i, exp(2 omega_i)), parameters (mu, omega), omega_i = log sd.

    Log density and reparametrisation: Zenn & Bamler (2024), section 2, with rho = 2 omega.
    """

    name = "meanfield"

    def __init__(self, dim: int) -> None:
        self.dim = dim
        self.options: dict[str, Any] = {}
        self.n_params = 2 * dim

    def initial(self) -> NDArray:
        return np.zeros(self.n_params)

    def sample(self, params: NDArray, eps: NDArray) -> Sample:
        mu, omega = params[: self.dim], params[self.dim :]
        sd = np.exp(omega)
        return Sample(mu + sd * eps, _log_normal(eps) - omega.sum(), _MeanFieldTape(eps, sd))

    def pullback(
        self, params: NDArray, tape: _MeanFieldTape, z_bar: NDArray, log_q_bar: NDArray | None
    ) -> NDArray:
        out = self.moments_pullback(params, z_bar.sum(axis=0), (z_bar * tape.eps).sum(axis=0))
        if log_q_bar is not None:
            out[self.dim :] -= log_q_bar.sum()
        return out

    def score(self, params: NDArray, tape: _MeanFieldTape) -> NDArray:
        return tape.eps * (-1.0 / tape.sd)

    def log_prob(self, params: NDArray, z: NDArray) -> NDArray:
        omega = params[self.dim :]
        return _log_normal(self.noise(params, z)) - omega.sum()

    def noise(self, params: NDArray, z: NDArray) -> NDArray:
        return (z - params[: self.dim]) * np.exp(-params[self.dim :])

    def moments(self, params: NDArray) -> tuple[NDArray, NDArray]:
        """Mean (D,) and standard deviations (D,), the factor of a diagonal covariance."""
        return params[: self.dim].copy(), np.exp(params[self.dim :])

    def moments_pullback(self, params: NDArray, mean_bar: NDArray, factor_bar: NDArray) -> NDArray:
        """Gradient (n_params,) from those of the mean (D,) and the standard deviations (D,)."""
        return np.concatenate((mean_bar, factor_bar * np.exp(params[self.dim :])))


class _FullRankTape(NamedTuple):
    eps: NDArray
    factor: NDArray


class FullRank:
    """q(z) = N(mu, L L^T); parameters (mu, log diag(L), sqrt(D) times the strict lower triangle by rows).

    The factor sqrt(D) makes an optimiser's step of one size in every parameter move a coordinate of z by as
    much through the D entries of its row as through its mean; without it Adam is unstable in high dimension.

    Raises ValueError where the D x D factor would not fit in memory.
    """

    name = "fullrank"

    def __init__(self, dim: int) -> None:
        size = 8 * dim * dim
        if size > MAX_FACTOR_BYTES:
            raise ValueError(
                f"method 'fullrank' on {dim} unconstrained parameters needs a covariance factor of "
                f"{size / 1e9:.1f} GB and several copies of it; use method 'meanfield'"
            )
        self.dim = dim
        self.options: dict[str, Any] = {}
        self._lower = np.tril_indices(dim, -1)
        self._diagonal = np.arange(dim)
        self._row_scale = 1.0 / np.sqrt(dim)
        self.n_params = 2 * dim + len(self._lower[0])

    def initial(self) -> NDArray:
        return np.zeros(self.n_params)

    def _factor(self, params: NDArray) -> NDArray:
        factor = np.zeros((self.dim, self.dim))
        factor[self._diagonal, self._diagonal] = np.exp(params[self.dim : 2 * self.dim])
        factor[self._lower] = self._row_scale * params[2 * self.dim :]
        return factor

    def sample(self, params: NDArray, eps: NDArray) -> Sample:
        factor = self._factor(params)
        log_det = params[self.dim : 2 * self.dim].sum()
        z = params[: self.dim] + eps @ factor.T
        return Sample(z, _log_normal(eps) - log_det, _FullRankTape(eps, factor))

    def pullback(
        self, params: NDArray, tape: _FullRankTape, z_bar: NDArray, log_q_bar: NDArray | None
    ) -> NDArray:
        out = self.moments_pullback(params, z_bar.sum(axis=0), z_bar.T @ tape.eps)
        if log_q_bar is not None:
            out[self.dim : 2 * self.dim] -= log_q_bar.sum()
        return out

    def score(self, params: NDArray, tape: _FullRankTape) -> NDArray:
        # -L^-T eps for each draw. BLAS itself: solve_triangular takes eight times as long on a small factor,
        # and wakes BLAS's threads, which on a busy machine costs milliseconds a step.
        return dtrsm(-1.0, tape.factor.T, tape.eps.T, lower=0).T

    def log_prob(self, params: NDArray, z: NDArray) -> NDArray:
        return _log_normal(self.noise(params, z)) - params[self.dim : 2 * self.dim].sum()

    def noise(self, params: NDArray, z: NDArray) -> NDArray:
        centred = (z - params[: self.dim]).T
        return solve_triangular(self._factor(params), centred, lower=True, check_finite=False).T

    def moments(self, params: NDArray) -> tuple[NDArray, NDArray]:
        """Mean (D,) and lower-triangular factor (D, D) of the covariance."""
        return params[: self.dim].copy(), self._factor(params)

    def moments_pullback(self, params: NDArray, mean_bar: NDArray, factor_bar: NDArray) -> NDArray:
        """Gradient (n_params,) from those of the mean (D,) and the factor (D, D), its upper part ignored."""
        diagonal_bar = np.diagonal(factor_bar) * np.exp(params[self.dim : 2 * self.dim])
        return np.concatenate((mean_bar, diagonal_bar, self._row_scale * factor_bar[self._lower]))
