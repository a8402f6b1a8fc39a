"""Differentiable annealed importance sampling, reported as q0 or as the ends of its trajectories."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..annealed import AnnealedFit, annealed_importance
from ..approximation import Fit
from ..engines.dais import annealing_kernel
from ..families import FAMILIES
from ..objectives.annealing import PARTS, AnnealingParameters
from ..objectives.dais import Annealing, noise_shape
from ..objectives.elbo import Estimate
from ..optimize import Schedule, maximize
from ..whitening import WhitenedTarget
from .base import (
    PAPER_SCHEDULE,
    PARTICLES_PER_STEP,
    GaussianFamily,
    MethodObjective,
    PerLogVariance,
    ReportsQ,
    check,
)
from .vi import Vi


@dataclass(frozen=True)
class Dais0(ReportsQ):
    """Annealed importance sampling's bound, maximised for the initial q0, which is the result.

    Zenn & Bamler (2024). Steps start at ``step`` standard deviations of q0 (``units`` "q0") or at ``step``
    in the target's own coordinates ("target"); q0 starts from a VI fit where ``warm_start``.
    """

    particles: int = 16
    transitions: int = 16
    groups: int = 0
    family: str = "meanfield"
    mass: str = "diagonal"
    units: str = "q0"
    learn: tuple[str, ...] = PARTS
    step: float = 0.3
    log_mass: float = 0.0
    retention: float = 0.7
    warm_start: bool = True
    start: str = "mode"
    paper: bool = False

    PAPER: ClassVar[dict[str, Any]] = {
        "start": "zero",
        "warm_start": False,
        "units": "target",
        "step": float(np.exp(-5.0)),
        "log_mass": 2.0,
        "retention": 0.7166,
        "groups": 1,
    }

    def __post_init__(self) -> None:
        check(self, particles=1, transitions=1, groups=0)
        if self.step <= 0:
            raise ValueError(f"step must be positive, found {self.step}")
        if not 0.01 < self.retention < 0.99:
            raise ValueError(f"retention must lie between 0.01 and 0.99, found {self.retention}")
        self._parameters(FAMILIES[self.family](1))

    def _parameters(self, family: GaussianFamily) -> AnnealingParameters:
        return AnnealingParameters(family, self.transitions, self.mass, self.units, self.learn)

    @property
    def schedule(self) -> Schedule:
        return PAPER_SCHEDULE if self.paper else Schedule(learning_rates=(0.03, 0.01))

    def objective(self, density: WhitenedTarget, family: GaussianFamily) -> MethodObjective:
        objective = _Annealed(density, self._parameters(family), self)
        return PerLogVariance(objective, family.dim) if self.paper else objective


class _Annealed:
    """The annealed bound at fresh noise."""

    def __init__(self, density: WhitenedTarget, parameters: AnnealingParameters, method: Dais0) -> None:
        self.memory = np.empty(0)
        self._density, self._parameters, self._method = density, parameters, method
        self._kernel = annealing_kernel(density)
        self._groups = method.groups or max(1, PARTICLES_PER_STEP // method.particles)

    def initial(self, rng: np.random.Generator) -> NDArray:
        method, family = self._method, self._parameters.family
        q0 = family.initial()
        if method.warm_start:
            vi = Vi(family.name)
            objective = vi.objective(self._density, family)
            q0 = maximize(objective, objective.initial(rng), vi.schedule, rng).params
        return self._parameters.initial(
            q0, step=method.step, log_mass=method.log_mass, retention=method.retention
        )

    def __call__(self, params: NDArray, rng: np.random.Generator) -> Estimate:
        path = self._parameters.unpack(params)
        particles, dim = self._groups * self._method.particles, self._density.dim
        noise = rng.standard_normal(noise_shape(self._method.transitions, particles, dim))
        bound, gradient, rejected = self._kernel.bound_gradient(path, noise, self._groups)
        return Estimate(bound, self._parameters.pullback(params, path, gradient), rejected)

    def q(self, params: NDArray) -> NDArray:
        return self._parameters.q0(params)

    def path(self, params: NDArray) -> Annealing:
        """What trajectories with these parameters depend on."""
        return self._parameters.unpack(params)


@dataclass(frozen=True)
class Dais(Dais0):
    """As ``Dais0``, but the result is where annealed trajectories end, with their weights."""

    def report(
        self,
        objective: Any,
        params: NDArray,
        density: WhitenedTarget,
        count: int,
        rng: np.random.Generator,
    ) -> tuple[type[Fit], dict[str, Any]]:
        """See ``Method``."""
        path = objective.path(params)
        importance = annealed_importance(density, path, count, rng)
        return AnnealedFit, {"importance": importance, "annealing": path}
