"""Gaussian families: mean-field (diagonal covariance) and full-rank (Cholesky factor)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from .base import Sample

LOG_2PI = float(np.log(2.0 * np.pi))

#: A full-rank factor above this size (in bytes) is refused: Adam keeps several copies of it.
MAX_FACTOR_BYTES = 2**30


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
        self.n_params = 2 * dim

    def initial(self) -> NDArray:
        return np.zeros(self.n_params)

    def sample(self, params: NDArray, eps: NDArray) -> Sample:
        mu, omega = params[: self.dim], params[self.dim :]
        sd = np.exp(omega)
        log_q = -0.5 * np.einsum("ij,ij->i", eps, eps) - (omega.sum() + 0.5 * self.dim * LOG_2PI)
        return Sample(mu + sd * eps, log_q, _MeanFieldTape(eps, sd))

    def pullback(
        self, params: NDArray, tape: _MeanFieldTape, z_bar: NDArray, log_q_bar: NDArray | None
    ) -> NDArray:
        out = np.empty(self.n_params)
        out[: self.dim] = z_bar.sum(axis=0)
        out[self.dim :] = np.einsum("ij,ij->j", z_bar, tape.eps) * tape.sd
        if log_q_bar is not None:
            out[self.dim :] -= log_q_bar.sum()
        return out

    def score(self, params: NDArray, tape: _MeanFieldTape) -> NDArray:
        return -tape.eps / tape.sd

    def log_prob(self, params: NDArray, z: NDArray) -> NDArray:
        mu, omega = params[: self.dim], params[self.dim :]
        x = (z - mu) * np.exp(-omega)
        return -0.5 * np.einsum("ij,ij->i", x, x) - omega.sum() - 0.5 * self.dim * LOG_2PI

    def moments(self, params: NDArray) -> tuple[NDArray, NDArray]:
        """Mean (D,) and standard deviations (D,), the factor of a diagonal covariance."""
        return params[: self.dim].copy(), np.exp(params[self.dim :])


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
        log_q = -0.5 * np.einsum("ij,ij->i", eps, eps) - (log_det + 0.5 * self.dim * LOG_2PI)
        return Sample(params[: self.dim] + eps @ factor.T, log_q, _FullRankTape(eps, factor))

    def pullback(
        self, params: NDArray, tape: _FullRankTape, z_bar: NDArray, log_q_bar: NDArray | None
    ) -> NDArray:
        factor_bar = z_bar.T @ tape.eps
        out = np.empty(self.n_params)
        out[: self.dim] = z_bar.sum(axis=0)
        out[self.dim : 2 * self.dim] = np.diagonal(factor_bar) * np.diagonal(tape.factor)
        out[2 * self.dim :] = self._row_scale * factor_bar[self._lower]
        if log_q_bar is not None:
            out[self.dim : 2 * self.dim] -= log_q_bar.sum()
        return out

    def score(self, params: NDArray, tape: _FullRankTape) -> NDArray:
        return -solve_triangular(tape.factor, tape.eps.T, lower=True, trans="T", check_finite=False).T

    def log_prob(self, params: NDArray, z: NDArray) -> NDArray:
        centred = (z - params[: self.dim]).T
        x = solve_triangular(self._factor(params), centred, lower=True, check_finite=False)
        log_det = params[self.dim : 2 * self.dim].sum()
        return -0.5 * np.einsum("ij,ij->j", x, x) - log_det - 0.5 * self.dim * LOG_2PI

    def moments(self, params: NDArray) -> tuple[NDArray, NDArray]:
        """Mean (D,) and lower-triangular factor (D, D) of the covariance."""
        return params[: self.dim].copy(), self._factor(params)
