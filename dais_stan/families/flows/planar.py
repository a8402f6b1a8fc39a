"""Planar flows: z' = z + u tanh(w . z + b) (Rezende & Mohamed 2015, equation 10)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .base import FlowParams, Passed, collect, unfolding, unfolding_slope
from .monotone import solve_monotone


class _Tape(NamedTuple):
    z: NDArray
    u: NDArray
    w: NDArray
    t: NDArray
    slope: NDArray
    product: NDArray  # u . w, (1,) or (N, 1)
    stretch: NDArray  # (N, 1)


class Planar:
    """One planar flow, invertible for any parameters (u^, w, b).

    u = u^ + (m(w . u^) - w . u^) w / |w|^2 with m = ``unfolding``, so that w . u > -1 (Rezende & Mohamed
    2015, appendix A.1, where m(x) = softplus(x) - 1; ours has m(0) = 0: u^ = 0 is the identity).
    """

    n_shared = 0

    def __init__(self, dim: int) -> None:
        self.dim = dim
        self.n_own = 2 * dim + 1

    def initial(self, rng: np.random.Generator) -> FlowParams:
        w = rng.standard_normal(self.dim) / np.sqrt(self.dim)
        return FlowParams(np.concatenate((np.zeros(self.dim), w, rng.standard_normal(1))), np.empty(0))

    def _vectors(self, own: NDArray) -> tuple[NDArray, NDArray, NDArray]:
        """u, w and b; (D,), (D,), (1,), or with a row for each point."""
        free, w, b = own[..., : self.dim], own[..., self.dim : -1], own[..., -1:]
        along = (w * free).sum(axis=-1, keepdims=True)
        return free + (unfolding(along) - along) / _square(w) * w, w, b

    def forward(self, params: FlowParams, z: NDArray) -> Passed:
        """See ``Flow``."""
        u, w, b = self._vectors(params.own)
        t = np.tanh((z * w).sum(axis=1, keepdims=True) + b)
        slope = 1.0 - t * t
        product = (w * u).sum(axis=-1, keepdims=True)
        stretch = 1.0 + slope * product
        return Passed(z + t * u, np.log(stretch[:, 0]), _Tape(z, u, w, t, slope, product, stretch))

    def inverse(self, params: FlowParams, z: NDArray) -> tuple[NDArray, NDArray]:
        """See ``Flow``. Along w it is a monotone scalar equation."""
        u, w, b = self._vectors(params.own)
        product = (w * u).sum(axis=-1, keepdims=True)
        along = solve_monotone((z * w).sum(axis=1, keepdims=True), product, np.ones(1), b)
        t = np.tanh(along + b)
        return z - t * u, -np.log(1.0 + (1.0 - t * t) * product)[:, 0]

    def pullback(
        self, params: FlowParams, tape: _Tape, z_bar: NDArray, log_det_bar: NDArray
    ) -> tuple[NDArray, FlowParams]:
        """See ``Flow``."""
        own = params.own.ndim == 2
        share = log_det_bar[:, None] / tape.stretch
        t_bar = (z_bar * tape.u).sum(axis=1, keepdims=True) - 2.0 * tape.t * share * tape.product
        shift_bar = t_bar * tape.slope
        product_bar = collect(share * tape.slope, own)
        u_bar = collect(z_bar * tape.t, own) + product_bar * tape.w
        w_bar = collect(shift_bar * tape.z, own) + product_bar * tape.u
        free_bar, more = self._free_pullback(params.own, u_bar)
        own_bar = np.concatenate((free_bar, w_bar + more, collect(shift_bar, own)), axis=-1)
        return z_bar + shift_bar * tape.w, FlowParams(own_bar, params.shared)

    def _free_pullback(self, own: NDArray, u_bar: NDArray) -> tuple[NDArray, NDArray]:
        """Gradients in u^ and w of what reaches u."""
        free, w = own[..., : self.dim], own[..., self.dim : -1]
        along = (w * free).sum(axis=-1, keepdims=True)
        square = _square(w)
        excess = (unfolding(along) - along) / square
        reached = (u_bar * w).sum(axis=-1, keepdims=True)
        along_bar = reached / square * (unfolding_slope(along) - 1.0)
        w_bar = excess * (u_bar - 2.0 * reached / square * w) + along_bar * free
        return u_bar + along_bar * w, w_bar

    def carry(self, params: FlowParams, tape: _Tape, gradient: NDArray) -> NDArray:
        """See ``Flow``. By the Sherman-Morrison identity."""
        log_det_bar = -2.0 * tape.t * tape.slope * tape.product / tape.stretch
        gradient = gradient - log_det_bar * tape.w
        along = (gradient * tape.u).sum(axis=1, keepdims=True)
        return gradient - tape.slope * along / tape.stretch * tape.w


def _square(w: NDArray) -> NDArray:
    """|w|^2, kept from zero, where u plays no part."""
    return np.maximum((w * w).sum(axis=-1, keepdims=True), np.finfo(float).tiny)
