"""The variational methods: what each maximises, from where, and what a fit by it reports.

A method is a frozen record of its options. ``objective`` binds it to a density and a family and gives what
the optimiser calls; ``report`` turns the optimum into the fields of the fit. Nothing else in the library
asks which method a fit is of.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from .annealed import AnnealedFit, annealed_importance
from .approximation import Fit
from .engines.dais import annealing_kernel
from .families import FAMILIES, FullRank, MeanField
from .importance import ImportanceSample, defensive_noise, importance_sample
from .objectives.annealing import PARTS, AnnealingParameters
from .objectives.dais import Annealing, noise_shape
from .objectives.elbo import Estimate, elbo
from .objectives.iwelbo import iwelbo
from .objectives.msc import msc
from .optimize import Schedule, maximize
from .whitening import WhitenedTarget

GaussianFamily = MeanField | FullRank

#: A step of the optimiser averages its bound over groups of particles until this many particles are used.
PARTICLES_PER_STEP = 16


class MethodObjective(Protocol):
    """What the optimiser maximises, and what its parameters say of q.

    ``memory`` is what a call changes beside its result; a resumed run gets it back.
    """

    memory: NDArray

    def initial(self, rng: np.random.Generator) -> NDArray:
        """Where to start from."""

    def __call__(self, params: NDArray, rng: np.random.Generator) -> Estimate:
        """A noisy value with its gradient."""

    def q(self, params: NDArray) -> NDArray:
        """The family's parameters among ``params``."""


class Method(Protocol):
    """The options of one method, checked when made."""

    @property
    def family(self) -> str:
        """Name of q's family, or q0's."""

    @property
    def start(self) -> str:
        """Where to start from, as ``find_start`` takes it, where the user does not say."""

    @property
    def schedule(self) -> Schedule:
        """The optimiser's schedule where the user gives none."""

    def objective(self, density: WhitenedTarget, family: GaussianFamily) -> MethodObjective: ...

    def report(
        self, objective: Any, params: NDArray, density: WhitenedTarget, count: int, rng: np.random.Generator
    ) -> tuple[type[Fit], dict[str, Any]]:
        """The kind of fit, and what it holds beside what every fit does."""


def _check(method: Any, **least: int) -> None:
    """Raise ValueError where an option of ``method`` is below its least value or its family is unknown."""
    for name, bound in least.items():
        if getattr(method, name) < bound:
            raise ValueError(f"{name} must be at least {bound}, found {getattr(method, name)}")
    if method.family not in FAMILIES:
        raise ValueError(f"family must be one of {', '.join(FAMILIES)}, found {method.family!r}")


def _pairs(rng: np.random.Generator, groups: int, shape: tuple[int, ...]) -> NDArray:
    """Standard normal noise (groups, *shape); where groups are even, half of them mirror the others."""
    if groups % 2:
        return rng.standard_normal((groups, *shape))
    half = rng.standard_normal((groups // 2, *shape))
    return np.concatenate((half, -half))


class _ReportsQ:
    """A method whose result is q itself."""

    def report(
        self,
        objective: MethodObjective,
        params: NDArray,
        density: WhitenedTarget,
        count: int,
        rng: np.random.Generator,
    ) -> tuple[type[Fit], dict[str, Any]]:
        """See ``Method``."""
        family = FAMILIES[self.family](density.dim)  # type: ignore[attr-defined]
        return Fit, {"importance": _importance_of_q(density, family, objective.q(params), count, rng)}


def _importance_of_q(
    density: WhitenedTarget, family: GaussianFamily, params: NDArray, count: int, rng: np.random.Generator
) -> ImportanceSample:
    """Fresh draws of q and of a heavier-tailed version of it, with the densities at each."""
    noise = defensive_noise(count, density.dim, rng)
    sample = family.sample(params, noise.eps)
    z = density.whitening.to_z(sample.z)
    log_q = sample.log_q - density.whitening.log_det
    return importance_sample(z, density.target.log_density(z), log_q, log_q + noise.log_ratio, noise.n_q)


@dataclass(frozen=True)
class Vi(_ReportsQ):
    """Reverse-KL variational inference: the ELBO (Zenn & Bamler 2024, equation 2)."""

    family: str
    draws_per_step: int = 16
    stick_the_landing: bool = True
    start: str = "mode"

    def __post_init__(self) -> None:
        _check(self, draws_per_step=1)

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
        eps = _pairs(rng, self._draws, (self._family.dim,))
        return elbo(self._density, self._family, params, eps, self._stick_the_landing)

    def q(self, params: NDArray) -> NDArray:
        return params


@dataclass(frozen=True)
class Iwvi(_ReportsQ):
    """Importance-weighted VI: the bound of N particles (Zenn & Bamler 2024, equation 3)."""

    particles: int = 16
    groups: int = 0  # of N particles in each step; 0: PARTICLES_PER_STEP particles in all
    doubly_reparametrised: bool = True
    family: str = "meanfield"
    start: str = "mode"
    paper: bool = False

    PAPER: ClassVar[dict[str, Any]] = {"start": "zero", "doubly_reparametrised": False, "groups": 1}

    def __post_init__(self) -> None:
        _check(self, particles=1, groups=0)

    @property
    def schedule(self) -> Schedule:
        return PAPER_SCHEDULE if self.paper else Schedule()

    def objective(self, density: WhitenedTarget, family: GaussianFamily) -> MethodObjective:
        return _Iwelbo(density, family, self)


class _Iwelbo:
    """The importance-weighted bound at fresh noise."""

    def __init__(self, density: WhitenedTarget, family: GaussianFamily, method: Iwvi) -> None:
        self.memory = np.empty(0)
        self._density, self._family = density, family
        self._groups = method.groups or max(1, PARTICLES_PER_STEP // method.particles)
        self._shape = (method.particles, family.dim)
        self._doubly_reparametrised = method.doubly_reparametrised

    def initial(self, rng: np.random.Generator) -> NDArray:
        return self._family.initial()

    def __call__(self, params: NDArray, rng: np.random.Generator) -> Estimate:
        eps = _pairs(rng, self._groups, self._shape)
        return iwelbo(self._density, self._family, params, eps, self._doubly_reparametrised)

    def q(self, params: NDArray) -> NDArray:
        return params


@dataclass(frozen=True)
class Dais0(_ReportsQ):
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
        _check(self, particles=1, transitions=1, groups=0)
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
        return _Annealed(density, self._parameters(family), self)


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


@dataclass(frozen=True)
class Msc(_ReportsQ):
    """Markovian score climbing (Naesseth, Lindsten & Blei 2020): minimises KL(p || q)."""

    particles: int = 16
    chains: int = 8
    family: str = "meanfield"
    start: str = "mode"
    paper: bool = False

    PAPER: ClassVar[dict[str, Any]] = {"start": "zero"}

    def __post_init__(self) -> None:
        if self.particles == 1:
            raise ValueError(
                "particles must be at least 2 for method 'msc': with 1 nothing is proposed beside the "
                "chain's present point, so that the chain never moves and q shrinks onto its start"
            )
        _check(self, particles=2, chains=1)

    @property
    def schedule(self) -> Schedule:
        if self.paper:
            return Schedule(
                learning_rates=(1e-3,), window=150, max_iterations=50_000, fixed=True, beta2=0.999, clip=None
            )
        return Schedule(learning_rates=(0.05, 0.01))

    def objective(self, density: WhitenedTarget, family: GaussianFamily) -> MethodObjective:
        return _Climb(density, family, self)


class _Climb:
    """The score of q at the chains' weighted candidates; ``memory`` holds the chains, (C, D)."""

    def __init__(self, density: WhitenedTarget, family: GaussianFamily, method: Msc) -> None:
        self.memory = np.zeros((method.chains, family.dim))
        self._density, self._family, self._method = density, family, method

    def initial(self, rng: np.random.Generator) -> NDArray:
        self.memory[:] = 0.1 * rng.standard_normal(self.memory.shape)
        return self._family.initial()

    def __call__(self, params: NDArray, rng: np.random.Generator) -> Estimate:
        chains, dim = self.memory.shape
        eps = rng.standard_normal((chains, self._method.particles - 1, dim))
        climb = msc(self._density, self._family, params, self.memory, eps, rng.random(chains))
        self.memory[:] = climb.chains
        return climb.estimate

    def q(self, params: NDArray) -> NDArray:
        return params


#: Adam as the paper uses it, for a fixed number of iterations.
PAPER_SCHEDULE = Schedule(learning_rates=(1e-3,), max_iterations=50_000, fixed=True, beta2=0.999, clip=None)

METHODS: dict[str, Callable[..., Method]] = {
    "meanfield": Vi,
    "fullrank": Vi,
    "iwvi": Iwvi,
    "dais0": Dais0,
    "dais": Dais,
    "msc": Msc,
}


def make_method(name: str, preset: str | None = None, **options: Any) -> Method:
    """The method of this name with the given options, others at their defaults or the preset's values.

    ``preset`` None has defaults that need no tuning; "paper" has the settings of Zenn & Bamler (2024).
    Raises ValueError for an unknown name, preset or option, and for a value out of range.
    """
    if name not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, found {name!r}")
    maker: Any = METHODS[name]
    if name in FAMILIES:
        options = {"family": name, **options}
    known = {entry.name for entry in fields(maker)}
    if unknown := sorted(set(options) - known):
        raise ValueError(f"method {name!r} has no option {', '.join(unknown)}; it has {_listed(known)}")
    if preset is None:
        return maker(**options)
    if preset != "paper" or not hasattr(maker, "PAPER"):
        raise ValueError(
            f"preset must be None or, for iwvi, dais0, dais and msc, 'paper'; found {preset!r} for {name!r}"
        )
    return maker(**{**maker.PAPER, "paper": True, **options})


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names - {"paper"}))


def options_of(method: Method) -> dict[str, Any]:
    """The options as plain values, for the record of a fit."""
    return {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(method).items()}  # type: ignore[call-overload]
