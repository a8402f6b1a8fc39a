"""Fit an encoder and a program's shared parameters; draw each observation's own."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..data import Data
from ..engines.program import StanProgram
from ..families.flow_family import FLOWS
from ..families.flows import Chain
from ..optimize import Checkpoint, Optimum, Progress, Schedule, maximize
from ..target import Target
from .batches import Batches, divide
from .objective import AmortizedElbo, Posterior

#: Adam for networks: a fixed number of steps of one size, the last window's iterates averaged.
SCHEDULE = Schedule(learning_rates=(2e-3,), max_iterations=5_000, fixed=True, beta2=0.999, clip=None)


@dataclass(frozen=True)
class AmortizedFit:
    """q(z | x) for any x, and the shared parameters.

    ``shared`` (S,) are their values, or means with ``shared_sd`` (S,), on the unconstrained space in the
    order of ``shared_names``; ``shared_sd`` is None for a point estimate.
    """

    posterior: Posterior
    params: NDArray
    batches: Batches
    shared: NDArray
    shared_sd: NDArray | None
    optimum: Optimum
    objective: AmortizedElbo

    @property
    def shared_names(self) -> tuple[str, ...]:
        return self.batches.shared_names

    def sample(self, x: ArrayLike, draws: int, seed: int | None = None) -> tuple[NDArray, NDArray]:
        """Draws (draws, B, L) of the unconstrained local parameters given x (B, ...); log q (draws, B)."""
        rng = np.random.default_rng(seed)
        rows = np.asarray(x, dtype=float).reshape(len(np.asarray(x)), -1)
        return self.posterior.draws(
            self.params, rows, rng.standard_normal((draws, len(rows), self.posterior.dim))
        )

    def elbo(self, draws: int = 10, seed: int = 0) -> float:
        """The bound per observation, over all observations, the mean of ``draws`` of each."""
        rng = np.random.default_rng(seed)
        total = 0.0
        for batch in self.batches.each:
            for _ in range(draws):
                noise = None if self.shared_sd is None else rng.standard_normal(len(self.shared))
                eps = rng.standard_normal(batch.local.shape)
                total += self.objective.at(self.optimum.params, batch, eps, noise).value * len(eps)
        return total / (draws * self.batches.count)


def fit_amortized(
    stan_file: str | os.PathLike[str],
    *,
    data: Data,
    local: str | Sequence[str],
    condition: str | Sequence[str],
    family: str = "meanfield",
    flows: int = 4,
    columns: int | None = None,
    shared: str = "point",
    shared_start: Mapping[str, ArrayLike] | None = None,
    widths: Sequence[int] = (64, 64),
    batch: int = 100,
    annealing: int = 0,
    schedule: Schedule = SCHEDULE,
    seed: int = 0,
    engine: str = "auto",
    progress: Progress | None = None,
    checkpoint: Checkpoint | None = None,
) -> AmortizedFit:
    """Variational inference with one encoder for every observation's own parameters.

    local, condition
        The program's parameters with one row for each observation, and the data with one row for each: the
        encoder's input. Everything else is found from the program and its data.
    family, flows, columns
        "meanfield" or a flow (see ``dais_stan.fit``): q(z | x) has the encoder's mean and standard
        deviations, and flows whose parameters the encoder gives too (an IAF's weights are shared, and the
        encoder gives their context).
    shared
        The other parameters: "point" (the maximum of the bound on the unconstrained space) or "meanfield".
    shared_start
        Values to start them from, all of them; None: normal with standard deviation 0.1, unconstrained.
    widths
        Of the encoder's gated layers.
    batch, annealing
        Observations in a step, at most; and steps over which the KL's weight rises from 0 to 1.

    Raises ValueError for an argument, TargetError and StanCompileError as ``Target.from_stan`` does.
    """
    if family != "meanfield" and family not in FLOWS:
        raise ValueError(f"family must be one of meanfield, {', '.join(FLOWS)}, found {family!r}")
    if shared not in ("point", "meanfield"):
        raise ValueError(f"shared must be 'point' or 'meanfield', found {shared!r}")
    batch_rng, start_rng, run_rng = (np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(3))
    program = StanProgram.from_file(stan_file)
    first = Target.from_program(program, data, engine=engine)
    names = (local,) if isinstance(local, str) else tuple(local)
    if unknown := [name for name in names if name not in first.variables]:
        raise ValueError(f"local must name parameters of {program.file_name}, found {', '.join(unknown)}")
    conditions = (condition,) if isinstance(condition, str) else tuple(condition)
    batches = divide(
        lambda values: Target.from_program(program, values, engine=engine),
        first.data or {},
        names,
        conditions,
        batch,
        batch_rng,
    )
    dim = batches.local_dim
    chain = (
        None if family == "meanfield" else Chain(dim, [FLOWS[family](dim, columns, i) for i in range(flows)])
    )
    posterior = Posterior(batches.each[0].inputs.shape[1], dim, widths, chain)
    objective = AmortizedElbo(batches, posterior, shared == "meanfield", annealing)
    start = objective.initial(start_rng, _shared_start(batches, shared_start, start_rng))
    optimum = maximize(objective, start, schedule, run_rng, progress, checkpoint, objective.memory)
    q, point, log_sd = objective.split(optimum.params)
    sd = np.exp(log_sd) if shared == "meanfield" else None
    return AmortizedFit(posterior, q, batches, point, sd, optimum, objective)


def _shared_start(
    batches: Batches, given: Mapping[str, ArrayLike] | None, rng: np.random.Generator
) -> NDArray:
    if given is None or batches.prior is None:
        return 0.1 * rng.standard_normal(len(batches.each[0].shared))
    return batches.prior.unconstrain(given)
