"""Functions of x whose expectation under a Gaussian component is known: no draws of x are needed.

Each maps points (N, D) to values (N, F), and ``expectation`` maps T components to values (T, F).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .components import Components


class Coordinates:
    """f(x) = x, F = D."""

    def __call__(self, x: NDArray) -> NDArray:
        return x

    def expectation(self, components: Components) -> NDArray:
        return components.location


class Squares:
    """f(x) = x^2 for each coordinate, F = D."""

    def __call__(self, x: NDArray) -> NDArray:
        return x**2

    def expectation(self, components: Components) -> NDArray:
        return components.location**2 + components.variances


@dataclass(frozen=True)
class Sinusoids:
    """f(x) = sum_w w^alpha sin(w t_w . x + phase_w): the random functions of Lange et al. (2022), section 5.

    The expectation under a Gaussian multiplies each term by exp(-w^2 t_w^T Sigma t_w / 2).

    directions
        t, unit vectors (F, W, D).
    phases
        (F, W).
    alpha
        Power of the amplitudes: the more negative, the smoother f.
    """

    directions: NDArray
    phases: NDArray
    alpha: float

    @classmethod
    def random(
        cls, count: int, dim: int, alpha: float, rng: np.random.Generator, frequencies: int = 300
    ) -> Sinusoids:
        """``count`` functions with directions uniform on the sphere, another for each frequency."""
        directions = rng.standard_normal((count, frequencies, dim))
        directions /= np.linalg.norm(directions, axis=2, keepdims=True)
        return cls(directions, rng.uniform(0.0, 2.0 * np.pi, (count, frequencies)), alpha)

    @property
    def amplitudes(self) -> NDArray:
        """w^alpha, (W,)."""
        return np.arange(1.0, self.phases.shape[1] + 1.0) ** self.alpha

    @cached_property
    def waves(self) -> NDArray:
        """w t_w, (F, W, D)."""
        return self.directions * np.arange(1.0, self.phases.shape[1] + 1.0)[:, None]

    def __call__(self, x: NDArray) -> NDArray:
        values = [np.sin(self._angle(i, x)) @ self.amplitudes for i in range(len(self.phases))]
        return np.stack(values, axis=1)

    def expectation(self, components: Components) -> NDArray:
        return np.stack([waves @ self.amplitudes for waves in self.expected_waves(components)], axis=1)

    def expected_waves(self, components: Components) -> Iterator[NDArray]:
        """For one function after another, the expectations of its sinusoids without amplitudes, (T, W)."""
        for i, waves in enumerate(self.waves):
            damping = np.exp(-0.5 * components.variance_along(waves))
            yield np.sin(self._angle(i, components.location)) * damping

    def _angle(self, i: int, x: NDArray) -> NDArray:
        return x @ self.waves[i].T + self.phases[i]
