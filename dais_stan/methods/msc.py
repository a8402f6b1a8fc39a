"""Markovian score climbing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..families import FLOWS, Family
from ..objectives.elbo import Estimate
from ..objectives.msc import msc
from ..optimize import Schedule
from ..whitening import WhitenedTarget
from .base import FLOW_SCHEDULE, MethodObjective, ReportsQ, check


@dataclass(frozen=True)
class Msc(ReportsQ):
    """Markovian score climbing (Naesseth, Lindsten & Blei 2020): minimises KL(p || q)."""

    particles: int = 16
    chains: int = 8
    start: str = "mode"
    paper: bool = False

    PAPER: ClassVar[dict[str, Any]] = {"start": "zero"}

    def __post_init__(self) -> None:
        if self.particles == 1:
            raise ValueError(
                "particles must be at least 2 for method 'msc': with 1 nothing is proposed beside the "
                "chain's present point, so that the chain never moves and q shrinks onto its start"
            )
        check(self, particles=2, chains=1)

    @property
    def schedule(self) -> Schedule:
        if self.paper:
            return Schedule(
                learning_rates=(1e-3,), window=150, max_iterations=50_000, fixed=True, beta2=0.999, clip=None
            )
        return FLOW_SCHEDULE if self.family in FLOWS else Schedule(learning_rates=(0.05, 0.01))

    def objective(self, density: WhitenedTarget, family: Family) -> MethodObjective:
        return _Climb(density, family, self)


class _Climb:
    """The score of q at the chains' weighted candidates; ``memory`` holds the chains, (C, D)."""

    def __init__(self, density: WhitenedTarget, family: Family, method: Msc) -> None:
        self.memory = np.zeros((method.chains, family.dim))
        self._density, self._family, self._method = density, family, method

    def initial(self, rng: np.random.Generator) -> NDArray:
        self.memory[:] = 0.1 * rng.standard_normal(self.memory.shape)
        return self._family.initial()  # not VI's: it may have lost a mode

    def __call__(self, params: NDArray, rng: np.random.Generator) -> Estimate:
        chains, dim = self.memory.shape
        eps = rng.standard_normal((chains, self._method.particles - 1, dim))
        climb = msc(self._density, self._family, params, self.memory, eps, rng.random(chains))
        self.memory[:] = climb.chains
        return climb.estimate

    def q(self, params: NDArray) -> NDArray:
        return params
