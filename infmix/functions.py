"""Functions of x whose expectation under a Gaussian component is known: no draws of x are needed.

Each maps points (N, D) to values (N, F), and ``expectation`` maps T components to values (T, F).
"""

from __future__ import annotations

from dataclasses import dataclass

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
    def _frequencies(self) -> NDArray:
        return np.arange(1.0, self.phases.shape[1] + 1.0)

    def __call__(self, x: NDArray) -> NDArray:
        amplitude = self._frequencies**self.alpha
        return np.stack([np.sin(self._angle(i, x)) @ amplitude for i in range(len(self.phases))], axis=1)

    def expectation(self, components: Components) -> NDArray:
        amplitude, out = self._frequencies**self.alpha, []
        for i, directions in enumerate(self.directions):
            waves = directions * self._frequencies[:, None]
            damping = np.exp(-0.5 * components.variance_along(waves))
            out.append((np.sin(self._angle(i, components.location)) * damping) @ amplitude)
        return np.stack(out, axis=1)

    def _angle(self, i: int, x: NDArray) -> NDArray:
        return x @ (self.directions[i] * self._frequencies[:, None]).T + self.phases[i]
