"""Reverse-KL variational inference."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..objectives.elbo import Estimate, elbo
from ..optimize import Schedule
from ..whitening import WhitenedTarget
from .base import GaussianFamily, MethodObjective, ReportsQ, check, pairs


@dataclass(frozen=True)
class Vi(ReportsQ):
    """Reverse-KL variational inference: the ELBO (Zenn & Bamler 2024, equation 2)."""

    family: str
    draws_per_step: int = 16
    stick_the_landing: bool = True
    start: str = "mode"

    def __post_init__(self) -> None:
        check(self, draws_per_step=1)

    @property
    def schedule(self) -> Schedule:
        return Schedule()

    def objective(self, density: WhitenedTarget, family: GaussianFamily) -> MethodObjective:
        return _Elbo(density, family, self.draws_per_step, self.stick_the_landing)


class _Elbo:
    """The ELBO at fresh noise."""

    def __init__(
        self, density: WhitenedTarget, family: GaussianFamily, draws: int, stick_the_landing: bool
    ) -> None:
        self.memory = np.empty(0)
        self._density, self._family = density, family
        self._draws, self._stick_the_landing = draws, stick_the_landing

    def initial(self, rng: np.random.Generator) -> NDArray:
        return self._family.initial()

    def __call__(self, params: NDArray, rng: np.random.Generator) -> Estimate:
        eps = pairs(rng, self._draws, (self._family.dim,))
        return elbo(self._density, self._family, params, eps, self._stick_the_landing)

    def q(self, params: NDArray) -> NDArray:
        return params
