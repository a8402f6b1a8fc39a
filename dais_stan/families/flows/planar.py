"""Planar flows: z' = z + u tanh(w . z + b) (Rezende & Mohamed 2015, equation 10)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .base import FlowParams, Passed, collect, unfolding, unfolding_slope
from .monotone import solve_monotone


class _Vectors(NamedTuple):
    """Each (D,), or with a row for each point; numbers are (1,) or (N, 1)."""

    free: NDArray  # u^
    along: NDArray  # w . u^
    u: NDArray
    w: NDArray
    shift: NDArray
    product: NDArray  # u . w


class _Tape(NamedTuple):
    z: NDArray
    t: NDArray
    slope: NDArray
    stretch: NDArray


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

    def prepare(self, params: FlowParams) -> _Vectors:
        """See ``Flow``."""
        free, w, shift = np.split(params.own, (self.dim, 2 * self.dim), axis=-1)
        along = (w * free).sum(axis=-1, keepdims=True)
        u = free + (unfolding(along) - along) / _square(w) * w
        return _Vectors(free, along, u, w, shift, (w * u).sum(axis=-1, keepdims=True))

    def forward(self, vectors: _Vectors, z: NDArray) -> Passed:
        """See ``Flow``."""
        t = np.tanh((z * vectors.w).sum(axis=1, keepdims=True) + vectors.shift)
        slope = 1.0 - t * t
        stretch = 1.0 + slope * vectors.product
        return Passed(z + t * vectors.u, np.log(stretch[:, 0]), _Tape(z, t, slope, stretch))

    def inverse(self, vectors: _Vectors, z: NDArray) -> tuple[NDArray, NDArray]:
        """See ``Flow``. Along w it is a monotone scalar equation."""
        target = (z * vectors.w).sum(axis=1, keepdims=True)
        along = solve_monotone(target, vectors.product, np.ones(1), vectors.shift)
        t = np.tanh(along + vectors.shift)
        return z - t * vectors.u, -np.log(1.0 + (1.0 - t * t) * vectors.product)[:, 0]

    def pullback(
        self, vectors: _Vectors, tape: _Tape, z_bar: NDArray, log_det_bar: NDArray
    ) -> tuple[NDArray, FlowParams]:
        """See ``Flow``."""
        own = vectors.w.ndim == 2
        share = log_det_bar[:, None] / tape.stretch
        t_bar = (z_bar * vectors.u).sum(axis=1, keepdims=True) - 2.0 * tape.t * share * vectors.product
        shift_bar = t_bar * tape.slope
        product_bar = collect(share * tape.slope, own)
        u_bar = collect(z_bar * tape.t, own) + product_bar * vectors.w
        w_bar = collect(shift_bar * tape.z, own) + product_bar * vectors.u
        free_bar, more = self._free_pullback(vectors, u_bar)
        own_bar = np.concatenate((free_bar, w_bar + more, collect(shift_bar, own)), axis=-1)
        return z_bar + shift_bar * vectors.w, FlowParams(own_bar, np.empty(0))

    def _free_pullback(self, vectors: _Vectors, u_bar: NDArray) -> tuple[NDArray, NDArray]:
        """Gradients in u^ and w of what reaches u."""
        w, along, square = vectors.w, vectors.along, _square(vectors.w)
        excess = (unfolding(along) - along) / square
        reached = (u_bar * w).sum(axis=-1, keepdims=True)
        along_bar = reached / square * (unfolding_slope(along) - 1.0)
        w_bar = excess * (u_bar - 2.0 * reached / square * w) + along_bar * vectors.free
        return u_bar + along_bar * w, w_bar

    def carry(self, vectors: _Vectors, tape: _Tape, gradient: NDArray) -> NDArray:
        """See ``Flow``. By the Sherman-Morrison identity."""
        log_det_bar = -2.0 * tape.t * tape.slope * vectors.product / tape.stretch
        gradient = gradient - log_det_bar * vectors.w
        along = (gradient * vectors.u).sum(axis=1, keepdims=True)
        return gradient - tape.slope * along / tape.stretch * vectors.w


def _square(w: NDArray) -> NDArray:
    """|w|^2, kept from zero, where u plays no part."""
    return np.maximum((w * w).sum(axis=-1, keepdims=True), np.finfo(float).tiny)
