"""Orthonormal bases Q of a Sylvester flow's subspace, each with its parametrisation and its pullback.

van den Berg, Hasenclever, Tomczak & Welling (2018), section 3: by Bjorck's iteration, by Householder
reflections, or fixed.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ...errors import FlowError
from .base import apply, apply_transposed, outer

#: Bjorck's iteration stops when |Q^T Q - I| (Frobenius) is below; its error is squared in each step.
ORTHONORMAL = 1e-9
MOST_STEPS = 100


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
        """Q y, (N, M) to (N, D)."""

    def pullback(self, state: Any, z: NDArray, v_bar: NDArray, y: NDArray, x_bar: NDArray) -> NDArray:
        """Gradient of sum(v_bar * project(z)) + sum(x_bar * embed(y)) in the parameters."""


class _Orthonormalised(NamedTuple):
    q: NDArray
    start: NDArray  # the matrix over its Frobenius norm
    norm: NDArray
    steps: list[tuple[NDArray, NDArray]]  # A and A^T A before each step


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

    def initial(self, rng: np.random.Generator) -> NDArray:
        return rng.standard_normal(self.n_params)

    def prepare(self, params: NDArray) -> _Orthonormalised:
        a = params.reshape(*params.shape[:-1], *self._shape)
        norm = np.sqrt((a * a).sum(axis=(-2, -1), keepdims=True))
        # With the largest singular value at most 1 the iteration converges.
        start = a = a / np.where(norm > 0.0, norm, 1.0)
        steps: list[tuple[NDArray, NDArray]] = []
        for _ in range(MOST_STEPS):
            square = np.swapaxes(a, -1, -2) @ a
            off = square - self._identity
            off *= off
            if off.sum(axis=(-2, -1)).max() <= ORTHONORMAL**2:
                return _Orthonormalised(a, start, norm, steps)
            steps.append((a, square))
            change = a @ square
            change *= -0.5
            change += 1.5 * a
            a = change
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
        for a, square in reversed(state.steps):
            cross = np.swapaxes(bar, -1, -2) @ a
            mixed = a @ (cross + np.swapaxes(cross, -1, -2))
            mixed += bar @ square
            mixed *= -0.5
            bar *= 1.5
            bar += mixed
        bar -= state.start * (bar * state.start).sum(axis=(-2, -1), keepdims=True)
        bar /= state.norm
        return bar.reshape(*bar.shape[:-2], -1)


class Householder:
    """A product of ``reflections`` Householder reflections I - 2 v v^T / |v|^2, the first applied first.

    M = D. A vector of zeros reflects nothing.
    """

    def __init__(self, dim: int, reflections: int) -> None:
        self.columns = dim
        self.n_params = reflections * dim
        self._shape = (reflections, dim)

    def initial(self, rng: np.random.Generator) -> NDArray:
        return rng.standard_normal(self.n_params)

    def prepare(self, params: NDArray) -> NDArray:
        """The vectors, (H, D) or (H, N, D)."""
        return np.moveaxis(params.reshape(*params.shape[:-1], *self._shape), -2, 0)

    def project(self, state: NDArray, z: NDArray) -> NDArray:
        return _reflect(state[::-1], z)[-1]

    def embed(self, state: NDArray, y: NDArray) -> NDArray:
        return _reflect(state, y)[-1]

    def pullback(self, state: NDArray, z: NDArray, v_bar: NDArray, y: NDArray, x_bar: NDArray) -> NDArray:
        bar = _reflect_pullback(state[::-1], z, v_bar)[::-1] + _reflect_pullback(state, y, x_bar)
        bar = np.moveaxis(bar, 0, -2)
        return bar.reshape(*bar.shape[:-2], -1)


def _doubled_share(vector: NDArray) -> NDArray:
    """2 / |v|^2, zero for a vector of zeros; (1,) or (N, 1)."""
    square = (vector * vector).sum(axis=-1, keepdims=True)
    return np.where(square > 0.0, 2.0 / np.where(square > 0.0, square, 1.0), 0.0)


def _reflect(vectors: NDArray, x: NDArray) -> list[NDArray]:
    """x (N, D) and where it is after each reflection."""
    passed = [x]
    for vector in vectors:
        along = (x * vector).sum(axis=1, keepdims=True)
        x = x - _doubled_share(vector) * along * vector
        passed.append(x)
    return passed


def _reflect_pullback(vectors: NDArray, x: NDArray, bar: NDArray) -> NDArray:
    """Gradient of sum(bar * the last of _reflect) in the vectors."""
    passed = _reflect(vectors, x)
    out = np.empty(vectors.shape, dtype=np.result_type(x, bar))
    for i in range(len(vectors) - 1, -1, -1):
        vector, before = vectors[i], passed[i]
        share = _doubled_share(vector)
        along = (before * vector).sum(axis=1, keepdims=True)
        along_bar = (bar * vector).sum(axis=1, keepdims=True)
        rows = share * (share * along * along_bar * vector - along * bar - along_bar * before)
        out[i] = rows if vectors.ndim == 3 else rows.sum(axis=0)
        bar = bar - share * along_bar * vector
    return out


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
        return y[:, self._order]

    def pullback(self, state: NDArray, z: NDArray, v_bar: NDArray, y: NDArray, x_bar: NDArray) -> NDArray:
        return state  # empty, as the parameters
