"""What every method is made of: the protocols, the checks, and the report of a fit that is q itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..approximation import Fit
from ..checks import whole_number
from ..families import FAMILIES, FLOWS, Family, FullRank, MeanField
from ..importance import ImportanceSample, defensive_noise, importance_sample
from ..objectives.dais import Annealing
from ..objectives.elbo import Estimate
from ..optimize import Schedule
from ..whitening import WhitenedTarget

GaussianFamily = MeanField | FullRank

#: A step of the optimiser averages its bound over groups of particles until this many particles are used.
PARTICLES_PER_STEP = 16

#: Adam as the paper uses it, for a fixed number of iterations.
PAPER_SCHEDULE = Schedule(learning_rates=(1e-3,), max_iterations=50_000, fixed=True, beta2=0.999, clip=None)


#: For a flow's parameters: smaller steps, and a finer sense of when its bound has stopped rising.
FLOW_SCHEDULE = Schedule(learning_rates=(0.03, 0.01), tolerance=0.003)


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


class PerLogVariance:
    """An objective in terms of log variances where q's parameters are log standard deviations.

    The paper's program learns the former. Adam's steps have one size whatever the parameter, so that a
    standard deviation moves half as fast through its log variance. ``dim`` numbers that follow q's ``dim``
    means are concerned.
    """

    def __init__(self, objective: Any, dim: int) -> None:
        self.memory = objective.memory
        self._objective, self._logs = objective, slice(dim, 2 * dim)

    def initial(self, rng: np.random.Generator) -> NDArray:
        params = self._objective.initial(rng)
        params[self._logs] *= 2.0
        return params

    def __call__(self, params: NDArray, rng: np.random.Generator) -> Estimate:
        estimate = self._objective(self._own(params), rng)
        estimate.gradient[self._logs] *= 0.5
        return estimate

    def q(self, params: NDArray) -> NDArray:
        return self._objective.q(self._own(params))

    def path(self, params: NDArray) -> Annealing:
        """See the annealed objective."""
        return self._objective.path(self._own(params))

    def _own(self, params: NDArray) -> NDArray:
        own = params.copy()
        own[self._logs] *= 0.5
        return own


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

    def make_family(self, dim: int) -> Family:
        """q's family, or q0's."""

    def objective(self, density: WhitenedTarget, family: Family) -> MethodObjective: ...

    def report(
        self, objective: Any, params: NDArray, density: WhitenedTarget, count: int, rng: np.random.Generator
    ) -> tuple[type[Fit], dict[str, Any]]:
        """The kind of fit, and what it holds beside what every fit does."""


def check(method: Any, **least: int) -> None:
    """Raise ValueError where an option of ``method`` is below its least value or its family is unknown.

    Whole numbers of NumPy's types become plain ones, which a fit's file takes.
    """
    given = {name: 1 for name in ("flows", "columns") if getattr(method, name) is not None}
    for name, bound in {**least, **given}.items():
        object.__setattr__(method, name, whole_number(name, getattr(method, name), bound))
    if not isinstance(method.family, str) or method.family not in FAMILIES:
        raise ValueError(f"family must be one of {', '.join(FAMILIES)}, found {method.family!r}")
    if method.flows is not None and method.family not in FLOWS:
        raise ValueError(f"flows is an option of {', '.join(FLOWS)}, not of family {method.family!r}")
    if method.columns is not None and method.family != "o-sylvester":
        raise ValueError(f"columns is an option of o-sylvester, not of family {method.family!r}")


def pairs(rng: np.random.Generator, groups: int, shape: tuple[int, ...]) -> NDArray:
    """Standard normal noise (groups, *shape); where groups are even, half of them mirror the others."""
    if groups % 2:
        return rng.standard_normal((groups, *shape))
    half = rng.standard_normal((groups // 2, *shape))
    return np.concatenate((half, -half))


@dataclass(frozen=True)
class ReportsQ:
    """A method whose result is q itself; the options are those of q's family.

    ``flows`` and ``columns`` are a flow's: how many, and M of an orthogonal Sylvester flow.
    """

    family: str = "meanfield"
    flows: int | None = None
    columns: int | None = None

    def make_family(self, dim: int) -> Family:
        """q's family in ``dim`` dimensions. Raises ValueError where it has fewer than ``columns``."""
        flow = {"flows": self.flows, "columns": self.columns} if self.family in FLOWS else {}
        return FAMILIES[self.family](dim, **flow)

    def report(
        self,
        objective: MethodObjective,
        params: NDArray,
        density: WhitenedTarget,
        count: int,
        rng: np.random.Generator,
    ) -> tuple[type[Fit], dict[str, Any]]:
        """See ``Method``."""
        family = self.make_family(density.dim)
        return Fit, {"importance": _importance_of_q(density, family, objective.q(params), count, rng)}


def _importance_of_q(
    density: WhitenedTarget, family: Family, params: NDArray, count: int, rng: np.random.Generator
) -> ImportanceSample:
    """Fresh draws of q and of a heavier-tailed version of it, with the densities at each."""
    noise = defensive_noise(count, density.dim, rng)
    sample = family.sample(params, noise.eps)
    z = density.whitening.to_z(sample.z)
    log_q = sample.log_q - density.whitening.log_det
    return importance_sample(z, density.target.log_density(z), log_q, log_q + noise.log_ratio, noise.n_q)
