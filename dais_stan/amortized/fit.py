"""Fit an encoder and a program's shared parameters; draw each observation's own."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import arviz_io
from ..checks import chosen_seed, whole_number
from ..data import Data
from ..families.gaussian import LOG_2PI
from ..optimize import Checkpoint, Optimum, Progress, Schedule, maximize
from ..target import Target
from ..verdicts import not_trusted
from .batches import Batches, places
from .problem import Options, Problem

#: Adam for networks: a fixed number of steps of one size, the last window's iterates averaged.
SCHEDULE = Schedule(learning_rates=(2e-3,), max_iterations=5_000, fixed=True, beta2=0.999, clip=None)


@dataclass(frozen=True)
class AmortizedFit:
    """q(z | x) for any x, and the shared parameters.

    ``shared`` (S,) are their values, or means with ``shared_sd`` (S,), on the unconstrained space in the
    order of ``shared_names``; ``shared_sd`` is None for a point estimate. ``params`` are those of q(z | x).
    """

    problem: Problem
    options: Options
    optimum: Optimum

    @property
    def target(self) -> Target:
        """The program with all observations."""
        return self.problem.target

    @property
    def batches(self) -> Batches:
        return self.problem.batches

    @property
    def params(self) -> NDArray:
        return self.problem.objective.split(self.optimum.params)[0]

    @property
    def shared(self) -> NDArray:
        return self.problem.objective.split(self.optimum.params)[1]

    @property
    def shared_sd(self) -> NDArray | None:
        log_sd = self.problem.objective.split(self.optimum.params)[2]
        return np.exp(log_sd) if self.options.shared == "meanfield" else None

    @property
    def shared_names(self) -> tuple[str, ...]:
        return self.batches.shared_names

    @property
    def warnings(self) -> list[str]:
        """Sentences on what is wrong with the run; empty is good."""
        optimum, reason = self.optimum, self._rejection()
        if optimum.stopped_by == "rejected" or not np.isfinite(optimum.trace.value[-1]):
            return [f"the bound was not finite in most of {optimum.iterations} steps{reason}"]
        if not np.isfinite(optimum.params).all():
            return [f"the parameters are not finite after {optimum.iterations} steps{reason}"]
        share = optimum.rejected / (optimum.iterations * self.options.batch)
        return [f"the density was not finite in {share:.0%} of the steps{reason}"] if share > 0.01 else []

    def _rejection(self) -> str:
        said = {batch.target.counts.last_rejection for batch in self.batches.each} - {""}
        return f" ({min(said)})" if said else ""

    def verdict(self) -> str:
        """How far the fit is to be trusted, in words."""
        if self.warnings:
            return not_trusted(self.warnings)
        return "No trouble found in the run; whether q follows each observation's posterior is not checked."

    def sample(self, x: ArrayLike, draws: int, seed: int | None = None) -> tuple[NDArray, NDArray]:
        """Draws (draws, B, L) of the unconstrained local parameters given x (B, ...); log q (draws, B)."""
        rng = np.random.default_rng(seed)
        draws = whole_number("draws", draws, 1)
        values = np.atleast_1d(np.asarray(x, dtype=float))
        inputs, dim = self.batches.inputs.shape[1], self.batches.local_dim
        if values.size != len(values) * inputs:
            raise ValueError(f"x must have {inputs} numbers for each observation, found shape {values.shape}")
        if not np.isfinite(values).all():
            raise ValueError("x must be finite, being the encoder's input")
        rows = values.reshape(len(values), inputs)
        return self.problem.posterior.draws(self.params, rows, rng.standard_normal((draws, len(rows), dim)))

    def unconstrained_draws(self, n: int = 1000, seed: int = 0) -> tuple[NDArray, NDArray]:
        """Unconstrained draws (n, D) of all parameters given the fit's own data, and log q (n,).

        Points of shared parameters have no density, and no part in log q.
        """
        local_seed, shared_seed = np.random.SeedSequence(seed).generate_state(2).tolist()
        inputs = self.batches.inputs
        z, log_q = self.sample(inputs, n, local_seed)
        local, shared = places(self.target, self.options.local, len(inputs))
        points, total = np.empty((n, self.target.dim)), log_q.sum(axis=1)
        points[:, local], points[:, shared] = z, self.shared
        if (sd := self.shared_sd) is not None:
            eps = np.random.default_rng(shared_seed).standard_normal((n, len(sd)))
            points[:, shared] += sd * eps
            total -= 0.5 * (eps * eps).sum(axis=1) + np.log(sd).sum() + 0.5 * len(sd) * LOG_2PI
        return points, total

    def draws(self, n: int = 1000, seed: int = 0) -> dict[str, NDArray]:
        """Draws of the program's own variables given the fit's own data: name -> (n, *declared shape)."""
        return self.target.constrain(self.unconstrained_draws(n, seed)[0], seed=seed)

    def groups(self, n: int = 1000, seed: int = 0) -> arviz_io.Groups:
        """The ArviZ groups of ``n`` draws, in one chain."""
        points, log_q = self.unconstrained_draws(n, seed)
        draws = {name: values[None] for name, values in self.target.constrain(points, seed=seed).items()}
        groups = arviz_io.posterior_groups(draws, self.target.data)
        groups["sample_stats"] = arviz_io.dataset({"log_q": log_q[None]})
        groups["posterior"].attrs |= self.attributes()
        return groups

    def to_arviz(self, n: int = 1000, seed: int = 0) -> Any:
        """InferenceData (ArviZ 0.x) or DataTree (1.x) of ``n`` draws."""
        return arviz_io.to_arviz(self.groups(n, seed))

    def attributes(self) -> dict[str, Any]:
        """How the fit was made, as netCDF attributes."""
        from .. import __version__

        return {
            "inference_library": "dais-stan",
            "inference_library_version": __version__,
            "method": "amortized",
            "family": self.options.family,
            "seed": self.options.seed,
            "iterations": self.optimum.iterations,
            "bound_per_observation": self.optimum.trace.value[-1],
            "verdict": self.verdict(),
        }

    def elbo(self, draws: int = 10, seed: int = 0) -> float:
        """The bound per observation, over all observations, the mean of ``draws`` of each."""
        draws = whole_number("draws", draws, 1)
        rng = np.random.default_rng(seed)
        total = 0.0
        for batch in self.batches.each:
            for _ in range(draws):
                noise = None if self.shared_sd is None else rng.standard_normal(len(self.shared))
                eps = rng.standard_normal(batch.local.shape)
                value = self.problem.objective.at(self.optimum.params, batch, eps, noise).value
                total += value * len(eps)
        return total / (draws * self.batches.count)

    def save(self, path: str | os.PathLike[str], n: int = 1000) -> arviz_io.Groups:
        """Write a netCDF file that ArviZ opens and ``load_amortized`` turns back into this fit.

        Returns the groups that are in it.
        """
        from .file import amortized_group

        groups = self.groups(n)
        groups["amortized"] = amortized_group(self)
        arviz_io.save(groups, path)
        return groups


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
    schedule: Schedule | None = None,
    seed: int | None = None,
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
    options = Options.of(
        local=local,
        condition=condition,
        family=family,
        flows=flows,
        columns=columns,
        shared=shared,
        widths=widths,
        batch=batch,
        annealing=annealing,
        seed=chosen_seed(seed),
    )
    target = Target.from_stan(stan_file, data=data, engine=engine)
    start_rng, run_rng = (np.random.default_rng(s) for s in np.random.SeedSequence(options.seed).spawn(3)[1:])
    problem = Problem.of(target, options)
    objective = problem.objective
    start = objective.initial(start_rng, _shared_start(problem.batches, shared_start, start_rng))
    optimum = maximize(
        objective, start, schedule or SCHEDULE, run_rng, progress, checkpoint, objective.memory
    )
    result = AmortizedFit(problem, options, optimum)
    for message in result.warnings:
        warnings.warn(message, stacklevel=2)
    return result


def _shared_start(
    batches: Batches, given: Mapping[str, ArrayLike] | None, rng: np.random.Generator
) -> NDArray:
    if given is None:
        return 0.1 * rng.standard_normal(len(batches.each[0].shared))
    known = {name.split(".")[0] for name in batches.shared_names}
    local = {batches.each[0].target.names[i].split(".")[0] for i in batches.each[0].local.ravel()}
    if unknown := set(given) - known - local:
        raise ValueError(f"shared_start must name shared parameters, found {', '.join(sorted(unknown))}")
    if batches.prior is None:
        return np.empty(0)
    point = batches.prior.unconstrain(given)
    if not np.isfinite(point).all():
        raise ValueError("shared_start must be finite and within the parameters' bounds")
    return point
