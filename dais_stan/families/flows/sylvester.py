"""Sylvester flows: z' = z + Q R tanh(R~ Q^T z + b) with triangular R, R~ (M x M) and orthonormal Q (D x M).

van den Berg, Hasenclever, Tomczak & Welling (2018), equation 13. By Sylvester's identity the Jacobian's
determinant is that of an M x M triangular matrix: prod_i (1 + r_ii r~_ii tanh'_i).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .base import (
    FlowParams,
    Passed,
    apply,
    apply_transposed,
    collect,
    outer,
    row_log_sums,
    tanh,
    unfolding,
    unfolding_slope,
)
from .bases import Basis, Bjorck, Householder, Permutation
from .monotone import solve_monotone

#: |log r~_ii| stays below.
MOST_LOG_SLOPE = 4.0


class _Matrices(NamedTuple):
    """R, R~ and b, with their diagonals, and the basis's state."""

    basis: Any
    r: NDArray
    r_tilde: NDArray
    product: NDArray  # r_ii r~_ii
    free: NDArray  # the parameters of the products
    bounded: NDArray  # log r~_ii over its bound
    r_tilde_diagonal: NDArray
    shift: NDArray


class _Tape(NamedTuple):
    z: NDArray
    v: NDArray  # Q^T z
    t: NDArray  # tanh
    slope: NDArray  # its derivative
    stretch: NDArray  # the factors of the determinant
    y: NDArray  # R t


class Sylvester:
    """The flow for any basis. Parameters: the basis's, a square matrix, R~'s diagonal, b.

    The square's strict upper part is R's and its strict lower part, transposed, R~'s, as in the authors'
    program; its diagonal gives the products r_ii r~_ii. The map is invertible where these exceed -1 and
    r~_ii is not 0 (theorem 2 of the paper): the products are ``unfolding`` of free parameters and r~_ii > 0,
    whose sign tanh makes redundant. The authors bound both by tanh, which also keeps the stretch below 2.
    """

    n_shared = 0

    def __init__(self, dim: int, basis: Basis) -> None:
        size = basis.columns
        self.dim = dim
        self._basis = basis
        sizes = (basis.n_params, size * size, size, size)
        ends = np.cumsum(sizes)
        self._parts = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
        self.n_own = int(ends[-1])
        # In units of 1 / sqrt(M): an optimiser's step then moves a row's sum as far for any M.
        self._upper = np.triu(np.ones((size, size)), 1) / np.sqrt(size)
        self._lower = self._upper.T.copy()

    def initial(self, rng: np.random.Generator) -> FlowParams:
        """R = 0 and R~ near a multiple of the identity, so that R has a gradient from the first step."""
        size = self._basis.columns
        square = np.tril(0.1 * rng.standard_normal((size, size)), -1)
        parts = (self._basis.initial(rng), square.ravel(), np.zeros(size), rng.standard_normal(size))
        return FlowParams(np.concatenate(parts), np.empty(0))

    def prepare(self, params: FlowParams) -> _Matrices:
        """See ``Flow``."""
        own = params.own
        size = self._basis.columns
        basis, square, r_tilde_raw, shift = (own[..., part] for part in self._parts)
        every = slice(None, None, size + 1)  # the diagonal, of a matrix in one row
        free = square[..., every]
        product, bounded = unfolding(free), np.tanh(r_tilde_raw / MOST_LOG_SLOPE)
        r_tilde_diagonal = np.exp(MOST_LOG_SLOPE * bounded)
        square = square.reshape(*own.shape[:-1], size, size)
        r, r_tilde = square * self._upper, square.swapaxes(-1, -2) * self._upper
        r.reshape(*own.shape[:-1], -1)[..., every] = product / r_tilde_diagonal
        r_tilde.reshape(*own.shape[:-1], -1)[..., every] = r_tilde_diagonal
        state = self._basis.prepare(basis)
        return _Matrices(state, r, r_tilde, product, free, bounded, r_tilde_diagonal, shift)

    def forward(self, m: _Matrices, z: NDArray) -> Passed:
        """See ``Flow``."""
        v = self._basis.project(m.basis, z)
        t = apply(m.r_tilde, v)
        t += m.shift
        t = tanh(t)
        slope = t * t
        np.subtract(1.0, slope, out=slope)
        stretch = slope * m.product
        stretch += 1.0
        y = apply(m.r, t)
        tape = _Tape(z, v, t, slope, stretch, y)
        moved = self._basis.embed(m.basis, y)
        moved += z
        return Passed(moved, row_log_sums(stretch), tape)

    def inverse(self, m: _Matrices, z: NDArray) -> tuple[NDArray, NDArray]:
        """See ``Flow``. In the subspace each row, from the last up, is a monotone scalar equation."""
        target = self._basis.project(m.basis, z)
        v, t = np.empty_like(target), np.empty_like(target)
        for i in range(self._basis.columns - 1, -1, -1):
            later = slice(i + 1, None)
            height, slope = m.r[..., i, i], m.r_tilde[..., i, i]
            shift = m.shift[..., i] + (m.r_tilde[..., i, later] * v[:, later]).sum(axis=1)
            rest = target[:, i] - (m.r[..., i, later] * t[:, later]).sum(axis=1)
            v[:, i] = solve_monotone(rest, height, slope, shift)
            t[:, i] = np.tanh(slope * v[:, i] + shift)
        stretch = 1.0 + (1.0 - t * t) * m.product
        return z + self._basis.embed(m.basis, v - target), -row_log_sums(stretch)

    def pullback(
        self, m: _Matrices, tape: _Tape, z_bar: NDArray, log_det_bar: NDArray
    ) -> tuple[NDArray, FlowParams]:
        """See ``Flow``."""
        own = m.shift.ndim == 2
        y_bar = self._basis.project(m.basis, z_bar)
        bent = 1.0 / tape.stretch
        share = tape.slope * bent
        product_bar = log_det_bar[:, None] * share if own else log_det_bar @ share
        np.subtract(1.0, bent, out=bent)  # share times the product of the slopes
        bent *= tape.t
        bent *= 2.0 * log_det_bar[:, None]
        shift_bar = apply_transposed(m.r, y_bar) * tape.slope
        shift_bar -= bent
        v_bar = apply_transposed(m.r_tilde, shift_bar)
        square_bar = self._square_bar(
            m, outer(y_bar, tape.t, own), outer(shift_bar, tape.v, own), product_bar
        )
        basis_bar = self._basis.pullback(m.basis, tape.z, v_bar, tape.y, z_bar)
        own_bar = np.concatenate((basis_bar, *square_bar, collect(shift_bar, own)), axis=-1)
        points_bar = self._basis.embed(m.basis, v_bar)
        points_bar += z_bar
        return points_bar, FlowParams(own_bar, np.empty(0))

    def _square_bar(
        self, m: _Matrices, r_bar: NDArray, r_tilde_bar: NDArray, product_bar: NDArray
    ) -> tuple[NDArray, NDArray]:
        """Gradients in the square matrix, as one row, and in R~'s diagonal parameters."""
        every = slice(None, None, self._basis.columns + 1)
        rows = r_bar.shape[:-2]
        diagonal_bar = r_bar.reshape(*rows, -1)[..., every] / m.r_tilde_diagonal
        log_slope_bar = r_tilde_bar.reshape(*rows, -1)[..., every] * m.r_tilde_diagonal
        log_slope_bar = log_slope_bar - diagonal_bar * m.product
        square_bar = r_bar * self._upper
        square_bar += r_tilde_bar.swapaxes(-1, -2) * self._lower
        square_bar = square_bar.reshape(*rows, -1)
        square_bar[..., every] = (diagonal_bar + product_bar) * unfolding_slope(m.free)
        return square_bar, log_slope_bar * (1.0 - m.bounded**2)

    def carry(self, m: _Matrices, tape: _Tape, gradient: NDArray) -> NDArray:
        """See ``Flow``. By Woodbury's identity, an M x M lower-triangular system for each point."""
        log_det_bar = -2.0 * m.product * tape.t * tape.slope / tape.stretch  # in the tanh's arguments
        inner = self._basis.project(m.basis, gradient) - apply_transposed(m.r_tilde, log_det_bar)
        rest = apply_transposed(m.r, inner)
        mixed = np.matmul(m.r_tilde, m.r)
        x = np.empty_like(rest)  # slope times the system's solution
        for i in range(self._basis.columns):
            before = slice(0, i)
            known = (mixed[..., before, i] * x[:, before]).sum(axis=1)
            x[:, i] = (rest[:, i] - known) * tape.slope[:, i] / tape.stretch[:, i]
        return gradient - self._basis.embed(m.basis, apply_transposed(m.r_tilde, log_det_bar + x))


class OrthogonalSylvester(Sylvester):
    """O-SNF: ``columns`` M at most D, Q by Bjorck's iteration. Raises ValueError for another M."""

    def __init__(self, dim: int, columns: int) -> None:
        if not 1 <= columns <= dim:
            raise ValueError(f"columns must be from 1 to the dimension {dim}, found {columns}")
        super().__init__(dim, Bjorck(dim, columns))


class HouseholderSylvester(Sylvester):
    """H-SNF: M = D, Q a product of reflections."""

    def __init__(self, dim: int, reflections: int) -> None:
        if reflections < 1:
            raise ValueError(f"reflections must be at least 1, found {reflections}")
        super().__init__(dim, Householder(dim, reflections))


class TriangularSylvester(Sylvester):
    """T-SNF: M = D, Q the identity, or the reversal of the coordinates (of every second flow)."""

    def __init__(self, dim: int, reverse: bool = False) -> None:
        super().__init__(dim, Permutation(dim, reverse))
