"""Orthonormal bases Q of a Sylvester flow's subspace, each with its parametrisation and its pullback.

van den Berg, Hasenclever, Tomczak & Welling (2018), section 3: by Bjorck's iteration, by Householder
reflections, or fixed.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ...errors import FlowError
from .base import apply, apply_transposed, outer, row_sums

#: Bjorck's iteration stops when |Q^T Q - I| (Frobenius) is below; its error is squared in each step.
ORTHONORMAL = 1e-9
MOST_STEPS = 100
#: A matrix of zeros is divided by it.
TINY = np.finfo(float).tiny


def _transposed(matrix: NDArray) -> NDArray:
    return matrix.swapaxes(-1, -2)


class Basis(Protocol):
    """Q (D, M) with Q^T Q = I; ``columns`` is M. Parameters are (n_params,) or (N, n_params)."""

    columns: int
    n_params: int

    def initial(self, rng: np.random.Generator) -> NDArray:
        """Random parameters (n_params,)."""

    def prepare(self, params: NDArray) -> Any:
        """What the other methods need of the parameters."""

    def project(self, state: Any, z: NDArray) -> NDArray:
        """Q^T z, (N, D) to (N, M)."""

    def embed(self, state: Any, y: NDArray) -> NDArray:
        """Q y, (N, M) to (N, D), a new array."""

    def pullback(self, state: Any, z: NDArray, v_bar: NDArray, y: NDArray, x_bar: NDArray) -> NDArray:
        """Gradient of sum(v_bar * project(z)) + sum(x_bar * embed(y)) in the parameters."""


class _Orthonormalised(NamedTuple):
    q: NDArray
    norm: NDArray
    steps: list[tuple[NDArray, NDArray]]  # A and 3/2 I - A^T A / 2 of each step: A is multiplied by it


class Bjorck:
    """The polar factor of a free matrix (D, M), by Bjorck & Bowie's (1971) iteration (equation 20).

    Its gradient is that of the iteration's steps. Raises FlowError where the iteration does not converge:
    the matrix has not full rank.
    """

    def __init__(self, dim: int, columns: int) -> None:
        self.columns = columns
        self.n_params = dim * columns
        self._shape = (dim, columns)
        self._identity = np.eye(columns)
        self._three_halves = 1.5 * self._identity

    def initial(self, rng: np.random.Generator) -> NDArray:
        """A random orthonormal basis, its entries of unit size."""
        return np.sqrt(self._shape[0]) * np.linalg.qr(rng.standard_normal(self._shape))[0].ravel()

    def prepare(self, params: NDArray) -> _Orthonormalised:
        a = params.reshape(*params.shape[:-1], *self._shape)
        square = _transposed(a) @ a
        # A bound of the largest singular value squared: divided by its root the matrix is where the iteration
        # converges.
        bound = np.maximum(row_sums(np.abs(square)).max(axis=-1), TINY)[..., None, None]
        norm = np.sqrt(bound)
        a, square = a / norm, square / bound
        steps = []
        for _ in range(MOST_STEPS):
            # At least one step: it is its derivative that keeps a basis orthonormal.
            square *= -0.5
            square += self._three_halves
            steps.append((a, square))
            a = a @ square
            square = _transposed(a) @ a
            error = square - self._identity
            if np.vdot(error, error) <= ORTHONORMAL**2:
                return _Orthonormalised(a, norm, steps)
        raise FlowError(
            f"the columns of an orthogonal Sylvester flow are not orthonormal after {MOST_STEPS} steps of "
            f"Bjorck's iteration: its {self._shape[0]} x {self._shape[1]} matrix must have full rank"
        )

    def project(self, state: _Orthonormalised, z: NDArray) -> NDArray:
        return apply_transposed(state.q, z)

    def embed(self, state: _Orthonormalised, y: NDArray) -> NDArray:
        return apply(state.q, y)

    def pullback(
        self, state: _Orthonormalised, z: NDArray, v_bar: NDArray, y: NDArray, x_bar: NDArray
    ) -> NDArray:
        own = state.q.ndim == 3
        bar = outer(z, v_bar, own)
        bar += outer(x_bar, y, own)
        for a, factor in reversed(state.steps):
            cross = _transposed(a) @ bar
            cross = cross + _transposed(cross)
            cross *= 0.5
            bar = bar @ factor
            bar -= a @ cross
        bar /= state.norm  # the polar factor does not depend on the matrix's size: the norm has no part
        return bar.reshape(*bar.shape[:-2], -1)


class _Reflections(NamedTuple):
    vectors: NDArray  # V (D, H)
    square: NDArray  # S^-1 (H, H)


class Householder:
    """A product of ``reflections`` Householder reflections I - 2 v v^T / |v|^2; M = D.

    In closed form it is I - V S^-1 V^T with S = strict upper part of V^T V + half its diagonal (Joffrain et
    al. 2006, the UT transform). A vector of zeros reflects nothing.
    """

    def __init__(self, dim: int, reflections: int) -> None:
        self.columns = dim
        self.n_params = reflections * dim
        self._shape = (dim, reflections)
        self._part = np.triu(np.ones((reflections, reflections)), 1) + 0.5 * np.eye(reflections)

    def initial(self, rng: np.random.Generator) -> NDArray:
        return rng.standard_normal(self.n_params)

    def prepare(self, params: NDArray) -> _Reflections:
        vectors = params.reshape(*params.shape[:-1], *self._shape)
        s = (np.swapaxes(vectors, -1, -2) @ vectors) * self._part
        diagonal = s.reshape(*s.shape[:-2], -1)[..., :: s.shape[-1] + 1]
        diagonal[diagonal == 0.0] = 1.0
        return _Reflections(vectors, np.linalg.inv(s))

    def project(self, state: _Reflections, z: NDArray) -> NDArray:
        along = apply_transposed(state.square, apply_transposed(state.vectors, z))
        return z - apply(state.vectors, along)

    def embed(self, state: _Reflections, y: NDArray) -> NDArray:
        return y - apply(state.vectors, apply(state.square, apply_transposed(state.vectors, y)))

    def pullback(
        self, state: _Reflections, z: NDArray, v_bar: NDArray, y: NDArray, x_bar: NDArray
    ) -> NDArray:
        vectors, square = state
        own = vectors.ndim == 3
        z_along = apply_transposed(square, apply_transposed(vectors, z))
        y_along = apply(square, apply_transposed(vectors, y))
        z_bar = apply(square, apply_transposed(vectors, v_bar))
        y_bar = apply_transposed(square, apply_transposed(vectors, x_bar))
        gram_bar = (outer(z_along, z_bar, own) + outer(y_bar, y_along, own)) * self._part
        bar = vectors @ (gram_bar + np.swapaxes(gram_bar, -1, -2))
        for points, along in ((z, z_bar), (v_bar, z_along), (y, y_bar), (x_bar, y_along)):
            bar = bar - outer(points, along, own)
        return bar.reshape(*bar.shape[:-2], -1)


class Permutation:
    """The coordinates as they stand, or in reverse order; no parameters, M = D."""

    n_params = 0

    def __init__(self, dim: int, reverse: bool) -> None:
        self.columns = dim
        self._order = slice(None, None, -1 if reverse else 1)

    def initial(self, rng: np.random.Generator) -> NDArray:
        return np.empty(0)

    def prepare(self, params: NDArray) -> NDArray:
        return params

    def project(self, state: NDArray, z: NDArray) -> NDArray:
        return z[:, self._order]

    def embed(self, state: NDArray, y: NDArray) -> NDArray:
        return y[:, self._order].copy()

    def pullback(self, state: NDArray, z: NDArray, v_bar: NDArray, y: NDArray, x_bar: NDArray) -> NDArray:
        return state  # empty, as the parameters
