"""Differentiable annealed importance sampling, reported as q0 or as the ends of its trajectories."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..annealed import AnnealedFit, annealed_importance
from ..approximation import Fit
from ..engines.dais import annealing_kernel
from ..families import FLOWS, Family, FlowFamily, MeanField
from ..objectives.annealing import PARTS, AnnealingParameters
from ..objectives.dais import AnnealedDraws, Annealing, Trajectories, forward, noise_shape
from ..objectives.elbo import Estimate
from ..objectives.flow_annealing import PulledBack, annealable, flow_bound_gradient
from ..objectives.iwelbo import group_weights
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
)
from .vi import FlowVi, optimum
from .warm_start import annealed_start

#: Groups of particles by which guesses at a start are compared.
START_GROUPS = 16
#: Shares of the first step size, largest first, that trajectories from a flow try: the curvature of what the
#: flow leaves is not known, and a step too long for it throws every particle far out.
START_STEPS = tuple(0.5**halvings for halvings in range(7))


@dataclass(frozen=True)
class Dais0(ReportsQ):
    """Annealed importance sampling's bound, maximised for the initial q0, which is the result.

    Zenn & Bamler (2024). With ``warm_start`` q0 starts from VI's q, widened, and betas and steps from the
    curvature around it (``methods/warm_start.py``); without, from N(0, I) with equal betas and steps. Steps
    start at ``step`` over the root of the bridge's largest curvature, in standard deviations of q0
    (``units`` "q0") or in the target's own coordinates ("target"). From a flow, trajectories run in its
    Gaussian base's space, and a warm start is VI's flow with equal betas and steps, the longest of some that
    have a better bound than VI.
    """

    particles: int = 16
    transitions: int = 16
    groups: int = 0
    mass: str = "diagonal"
    units: str = "q0"
    learn: tuple[str, ...] = PARTS
    step: float = 0.7
    log_mass: float = 0.0
    retention: float = 0.5
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
        self._parameters(MeanField(1) if self.family in FLOWS else self.make_family(1))

    def _parameters(self, family: Family) -> AnnealingParameters:
        gaussian: Any = family.base if isinstance(family, FlowFamily) else family
        return AnnealingParameters(gaussian, self.transitions, self.mass, self.units, self.learn)

    @property
    def schedule(self) -> Schedule:
        if self.paper:
            return PAPER_SCHEDULE
        return FLOW_SCHEDULE if self.family in FLOWS else Schedule(learning_rates=(0.02, 0.005))

    def objective(self, density: WhitenedTarget, family: Family) -> MethodObjective:
        objective: MethodObjective
        if isinstance(family, FlowFamily):
            objective = _FlowAnnealed(density, family, self._parameters(family), self)
        else:
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
        method = self._method
        start: dict[str, Any] = {
            "step": method.step,
            "log_mass": method.log_mass,
            "retention": method.retention,
        }
        if not method.warm_start:
            return self._parameters.initial(**start)
        noise = self._noise(START_GROUPS, rng)

        def bound(params: NDArray) -> float:
            return _mean_bound(self._kernel.draws(self._parameters.unpack(params), noise))

        return annealed_start(self._parameters, self._density, bound, rng, start)

    def _noise(self, groups: int, rng: np.random.Generator) -> NDArray:
        particles = groups * self._method.particles
        return rng.standard_normal(noise_shape(self._method.transitions, particles, self._density.dim))

    def __call__(self, params: NDArray, rng: np.random.Generator) -> Estimate:
        path = self._parameters.unpack(params)
        noise = self._noise(self._groups, rng)
        bound, gradient, rejected = self._kernel.bound_gradient(path, noise, self._groups)
        return Estimate(bound, self._parameters.pullback(params, path, gradient), rejected)

    def q(self, params: NDArray) -> NDArray:
        return self._parameters.q0(params)

    def path(self, params: NDArray) -> Annealing:
        """What trajectories with these parameters depend on."""
        return self._parameters.unpack(params)


def _mean_bound(ends: Trajectories | AnnealedDraws) -> float:
    """The annealed bound of START_GROUPS groups of particles."""
    return float(group_weights(ends.log_weight.reshape(START_GROUPS, -1))[0].mean())


class _FlowAnnealed(_Annealed):
    """The same from a flow; parameters are those of the annealing from its base, then the flow's own."""

    def __init__(
        self,
        density: WhitenedTarget,
        family: FlowFamily,
        parameters: AnnealingParameters,
        method: Dais0,
    ) -> None:
        super().__init__(density, parameters, method)
        self._family = family

    def initial(self, rng: np.random.Generator) -> NDArray:
        method = self._method
        if not method.warm_start:
            return self._start(self._family.initial(), method.step)
        vi = FlowVi(method.family, method.flows, method.columns)
        found = optimum(vi, self._density, self._family, rng)
        noise = self._noise(START_GROUPS, rng)
        for share in START_STEPS:
            start = self._start(found.params, share * method.step)
            pulled = PulledBack(self._density, self._family, self.q(start))
            if _mean_bound(forward(pulled, self.path(start), noise)) >= found.trace.value[-1]:
                break
        return start

    def _start(self, q0: NDArray, step: float) -> NDArray:
        method, (base, flow) = self._method, self._family.split(q0)
        start = self._parameters.initial(
            base, step=step, log_mass=method.log_mass, retention=method.retention
        )
        return np.concatenate((start, *flow))

    def __call__(self, params: NDArray, rng: np.random.Generator) -> Estimate:
        path = self.path(params)
        pulled = PulledBack(self._density, self._family, self.q(params))
        noise = self._noise(self._groups, rng)
        (bound, gradient, rejected), flow_bar = flow_bound_gradient(pulled, path, noise, self._groups)
        if "q0" not in self._method.learn:
            flow_bar[:] = 0.0
        annealing_bar = self._parameters.pullback(self._annealing(params), path, gradient)
        return Estimate(bound, np.concatenate((annealing_bar, flow_bar)), rejected)

    def _annealing(self, params: NDArray) -> NDArray:
        return params[: self._parameters.n_params]

    def q(self, params: NDArray) -> NDArray:
        flow = params[self._parameters.n_params :]
        return np.concatenate((self._parameters.q0(self._annealing(params)), flow))

    def path(self, params: NDArray) -> Annealing:
        """What trajectories in the flow's base space depend on."""
        return self._parameters.unpack(self._annealing(params))


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
        annealed = annealable(density, self.make_family(density.dim), objective.q(params))
        importance = annealed_importance(annealed, path, count, rng)
        return AnnealedFit, {"importance": importance, "annealing": path}
