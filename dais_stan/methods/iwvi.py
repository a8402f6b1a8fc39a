"""Importance-weighted variational inference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..families import FLOWS, Family
from ..objectives.elbo import Estimate
from ..objectives.iwelbo import iwelbo
from ..optimize import Schedule
from ..whitening import WhitenedTarget
from .base import (
    FLOW_SCHEDULE,
    PAPER_SCHEDULE,
    PARTICLES_PER_STEP,
    MethodObjective,
    PerLogVariance,
    ReportsQ,
    check,
    pairs,
)
from .vi import gaussian_start


@dataclass(frozen=True)
class Iwvi(ReportsQ):
    """Importance-weighted VI: the bound of N particles (Zenn & Bamler 2024, equation 3)."""

    particles: int = 16
    groups: int = 0  # of N particles in each step; 0: PARTICLES_PER_STEP particles in all
    doubly_reparametrised: bool = True
    start: str = "mode"
    paper: bool = False

    PAPER: ClassVar[dict[str, Any]] = {"start": "zero", "doubly_reparametrised": False, "groups": 1}

    def __post_init__(self) -> None:
        check(self, particles=1, groups=0)

    @property
    def schedule(self) -> Schedule:
        if self.paper:
            return PAPER_SCHEDULE
        return FLOW_SCHEDULE if self.family in FLOWS else Schedule()

    def objective(self, density: WhitenedTarget, family: Family) -> MethodObjective:
        objective = _Iwelbo(density, family, self)
        return PerLogVariance(objective, family.dim) if self.paper else objective


class _Iwelbo:
    """The importance-weighted bound at fresh noise."""

    def __init__(self, density: WhitenedTarget, family: Family, method: Iwvi) -> None:
        self.memory = np.empty(0)
        self._density, self._family = density, family
        self._groups = method.groups or max(1, PARTICLES_PER_STEP // method.particles)
        self._shape = (method.particles, family.dim)
        self._doubly_reparametrised = method.doubly_reparametrised

    def initial(self, rng: np.random.Generator) -> NDArray:
        return gaussian_start(self._density, self._family, rng)

    def __call__(self, params: NDArray, rng: np.random.Generator) -> Estimate:
        eps = pairs(rng, self._groups, self._shape)
        return iwelbo(self._density, self._family, params, eps, self._doubly_reparametrised)

    def q(self, params: NDArray) -> NDArray:
        return params
