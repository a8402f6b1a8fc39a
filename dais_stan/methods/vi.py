"""Reverse-KL variational inference."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..families import FLOWS, Family, FlowFamily
from ..objectives.elbo import Estimate, elbo
from ..optimize import Optimum, Schedule, maximize
from ..whitening import WhitenedTarget
from .base import FLOW_SCHEDULE, MethodObjective, ReportsQ, check, pairs


@dataclass(frozen=True)
class Vi(ReportsQ):
    """Reverse-KL variational inference: the ELBO (Zenn & Bamler 2024, equation 2)."""

    draws_per_step: int = 16
    stick_the_landing: bool = True
    start: str = "mode"

    def __post_init__(self) -> None:
        check(self, draws_per_step=1)

    @property
    def schedule(self) -> Schedule:
        return FLOW_SCHEDULE if self.family in FLOWS else Schedule()

    def objective(self, density: WhitenedTarget, family: Family) -> MethodObjective:
        return _Elbo(density, family, self.draws_per_step, self.stick_the_landing)


class _Elbo:
    """The ELBO at fresh noise."""

    def __init__(self, density: WhitenedTarget, family: Family, draws: int, stick_the_landing: bool) -> None:
        self.memory = np.empty(0)
        self._density, self._family = density, family
        self._draws, self._stick_the_landing = draws, stick_the_landing

    def initial(self, rng: np.random.Generator) -> NDArray:
        return gaussian_start(self._density, self._family, rng)

    def __call__(self, params: NDArray, rng: np.random.Generator) -> Estimate:
        eps = pairs(rng, self._draws, (self._family.dim,))
        return elbo(self._density, self._family, params, eps, self._stick_the_landing)

    def q(self, params: NDArray) -> NDArray:
        return params


@dataclass(frozen=True)
class FlowVi(Vi):
    """As ``Vi``, of a flow (Rezende & Mohamed 2015; van den Berg et al. 2018)."""

    family: str = "o-sylvester"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.family not in FLOWS:
            raise ValueError(
                f"family of method 'flow' must be one of {', '.join(FLOWS)}, not {self.family!r}"
            )


def gaussian_start(density: WhitenedTarget, family: Family, rng: np.random.Generator) -> NDArray:
    """Parameters to start from: the standard normal, or for a flow the identity over VI's Gaussian."""
    if not isinstance(family, FlowFamily):
        return family.initial()
    return family.initial(optimum(Vi(family.base.name), density, family.base, rng).params)


def optimum(vi: Vi, density: WhitenedTarget, family: Family, rng: np.random.Generator) -> Optimum:
    """Where this kind of VI ends: what other methods start from."""
    objective = vi.objective(density, family)
    return maximize(objective, objective.initial(rng), vi.schedule, rng)
