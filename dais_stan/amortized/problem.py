"""What an amortised fit optimises, built from a target and the user's options; again for a saved one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..checks import whole_number
from ..families.flow_family import FLOWS
from ..families.flows import Chain
from ..target import Target
from .batches import Batches, divide
from .objective import AmortizedElbo, Posterior


@dataclass(frozen=True)
class Options:
    """The options of ``fit_amortized`` of the same names. Raises ValueError for one out of range."""

    local: tuple[str, ...]
    condition: tuple[str, ...]
    family: str
    flows: int
    columns: int | None
    shared: str
    widths: tuple[int, ...]
    batch: int
    annealing: int
    seed: int

    @classmethod
    def of(cls, **options: Any) -> Options:
        """A single name of local parameters or data stands for a list of one, as does a single width."""
        lists = {name: _listed(options[name]) for name in ("local", "condition", "widths")}
        return cls(**{**options, **lists})

    def __post_init__(self) -> None:
        for name in ("local", "condition"):
            if not all(isinstance(entry, str) for entry in getattr(self, name)) or not getattr(self, name):
                raise ValueError(f"{name} must be one name or several, found {getattr(self, name)}")
        if self.family not in ("meanfield", *FLOWS):
            raise ValueError(f"family must be one of meanfield, {', '.join(FLOWS)}, found {self.family!r}")
        if self.shared not in ("point", "meanfield"):
            raise ValueError(f"shared must be 'point' or 'meanfield', found {self.shared!r}")
        if self.columns is not None and self.family != "o-sylvester":
            raise ValueError(f"columns is an option of o-sylvester, not of family {self.family!r}")
        if not self.widths:
            raise ValueError("widths must be at least one number, found none")
        least = {"flows": int(self.family in FLOWS), "batch": 1, "annealing": 0, "seed": 0}
        if self.columns is not None:
            least["columns"] = 1
        for name, bound in least.items():
            object.__setattr__(self, name, whole_number(name, getattr(self, name), bound))
        object.__setattr__(self, "widths", tuple(whole_number("widths", w, 1) for w in self.widths))


def _listed(value: Any) -> tuple[Any, ...]:
    return (value,) if np.ndim(value) == 0 else tuple(value)


@dataclass(frozen=True)
class Problem:
    """The target of all observations, their batches, q(z | x), and the bound."""

    target: Target
    batches: Batches
    posterior: Posterior
    objective: AmortizedElbo

    @classmethod
    def of(cls, target: Target, options: Options) -> Problem:
        """Raises ValueError where ``local`` or ``condition`` do not fit the program and its data."""
        program = target.program
        if program is None:
            raise ValueError("an amortised fit needs a Stan program, found a target made of functions")
        parameters = [name for name, v in target.variables.items() if v.block == "parameters" and v.shape]
        if unknown := [name for name in options.local if name not in parameters]:
            raise ValueError(
                f"local must name parameters of {program.file_name} with one row for each observation, found "
                f"{', '.join(unknown)} among {', '.join(parameters) or 'none'}"
            )
        batches = divide(
            lambda values: Target.from_program(program, values, engine=target.engine),
            target.data or {},
            options.local,
            options.condition,
            options.batch,
            np.random.default_rng(np.random.SeedSequence(options.seed).spawn(1)[0]),
        )
        dim = batches.local_dim
        chain = None
        if options.family != "meanfield":
            chain = Chain(dim, [FLOWS[options.family](dim, options.columns, i) for i in range(options.flows)])
        posterior = Posterior(batches.inputs.shape[1], dim, options.widths, chain)
        objective = AmortizedElbo(batches, posterior, options.shared == "meanfield", options.annealing)
        return cls(target, batches, posterior, objective)
