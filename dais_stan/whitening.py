"""Affine coordinates u with z = centre + scale u, in which a posterior looks like a standard normal.

Families and optimisers work on u: a step of 0.1 then means a tenth of a posterior standard deviation in
every direction, whatever the units of the model's parameters.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

if TYPE_CHECKING:
    from .target import Target


@dataclass(frozen=True)
class Whitening:
    """z = centre + scale * u for a scale (D,), z = centre + scale @ u for a lower-triangular (D, D)."""

    centre: NDArray
    scale: NDArray

    def __post_init__(self) -> None:
        # As a file gives it back: products of the other layout differ in the last digit.
        object.__setattr__(self, "scale", np.ascontiguousarray(self.scale))

    @classmethod
    def identity(cls, dim: int) -> Whitening:
        return cls(np.zeros(dim), np.ones(dim))

    @cached_property
    def log_det(self) -> float:
        """log |det dz/du|."""
        diagonal = self.scale if self.scale.ndim == 1 else np.diagonal(self.scale)
        return float(np.log(diagonal).sum())

    def to_z(self, u: NDArray) -> NDArray:
        """Points in the unconstrained space, same shape as u: (D,) or (N, D)."""
        return self.centre + (u * self.scale if self.scale.ndim == 1 else u @ self.scale.T)

    def to_u(self, z: NDArray) -> NDArray:
        """The whitened coordinates of points z (N, D)."""
        centred = z - self.centre
        if self.scale.ndim == 1:
            return centred / self.scale
        return solve_triangular(self.scale, centred.T, lower=True, check_finite=False).T

    def gradient_in_u(self, gradient: NDArray) -> NDArray:
        """scale^T gradient: the chain rule from z to u."""
        return gradient * self.scale if self.scale.ndim == 1 else gradient @ self.scale

    def gradient_in_z(self, gradient: NDArray) -> NDArray:
        """The chain rule the other way, from u to z."""
        if self.scale.ndim == 1:
            return gradient / self.scale
        return solve_triangular(self.scale, gradient.T, lower=True, trans="T", check_finite=False).T

    def affine(self, mean: NDArray, factor: NDArray) -> tuple[NDArray, NDArray]:
        """Mean and covariance factor in z of a Gaussian given in u; a factor is (D,) or (D, D)."""
        if self.scale.ndim == 1:
            scaled = self.scale * factor if factor.ndim == 1 else self.scale[:, None] * factor
        else:
            scaled = self.scale * factor if factor.ndim == 1 else self.scale @ factor
        return self.to_z(mean), scaled


class WhitenedTarget:
    """The target's log density in u, with the Jacobian's constant, so that evidence is unchanged."""

    def __init__(self, target: Target, whitening: Whitening) -> None:
        self.target = target
        self.whitening = whitening
        self.dim = target.dim

    def to_target(self, u: NDArray) -> tuple[NDArray, NDArray]:
        """The target's points (N, D) at u, with log |det| of the way there (N,)."""
        return self.whitening.to_z(u), np.full(len(u), self.whitening.log_det)

    def log_density(self, u: NDArray) -> NDArray:
        return self.target.log_density(self.whitening.to_z(u)) + self.whitening.log_det

    def log_density_gradient(self, u: NDArray) -> tuple[NDArray, NDArray]:
        value, gradient = self.target.log_density_gradient(self.whitening.to_z(u))
        return value + self.whitening.log_det, self.whitening.gradient_in_u(gradient)

    def hvp(self, u: NDArray, v: NDArray, gradient: NDArray | None = None) -> NDArray:
        """See ``Target.hvp``; a known ``gradient`` is the one in u."""
        known = None if gradient is None else self.whitening.gradient_in_z(gradient)
        # A direction has no centre: only the linear part moves it to z.
        direction = v * self.whitening.scale if self.whitening.scale.ndim == 1 else v @ self.whitening.scale.T
        return self.whitening.gradient_in_u(self.target.hvp(self.whitening.to_z(u), direction, known))
