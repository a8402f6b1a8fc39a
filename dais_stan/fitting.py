"""Fit a variational family to a target, and say how good it is."""

from __future__ import annotations

import hashlib
import json
import os
import time
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .approximation import Fit
from .families import FAMILIES, Family
from .importance import ImportanceSample, defensive_noise, importance_sample
from .objectives.elbo import Estimate, elbo
from .optimize import Checkpoint, Optimum, Progress, Schedule, maximize
from .start import Start, find_start
from .target import EvaluationCounts, Target
from .whitening import WhitenedTarget

#: The evaluation draws kept with a fit stay below this size.
MAX_DRAWS_BYTES = 2e8


def fit(
    target: Target,
    method: str = "fullrank",
    *,
    seed: int | None = None,
    start: str | ArrayLike | Mapping[str, Any] = "mode",
    draws_per_step: int = 16,
    schedule: Schedule | None = None,
    stick_the_landing: bool = True,
    importance_draws: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> Fit:
    """Approximate the posterior of ``target`` by a variational family.

    method
        "meanfield" (diagonal Gaussian) or "fullrank" (Gaussian with any covariance), both on the
        unconstrained space, maximising the ELBO (Zenn & Bamler 2024, equation 2).
    seed
        An integer; the same seed gives the same fit, whatever the number of threads. None takes one from
        the system and records it.
    start
        "mode" (with its curvature; the default), "pathfinder", "zero", unconstrained values (D,), or a
        mapping of the model's variables to values. The optimiser works in coordinates whitened by it.
    draws_per_step
        Noise vectors in each gradient estimate; an even number uses antithetic pairs.
    schedule
        Learning rates, window, tolerance and the most iterations; see ``dais_stan.optimize.Schedule``.
    stick_the_landing
        Drop the score term of the gradient (Roeder, Wu & Duvenaud 2017).
    importance_draws
        Fresh draws for the evidence, k-hat and the importance-weighted posterior; 10,000 by default, fewer
        where they would not fit in 200 MB.
    checkpoint, resume
        A file that is written every few seconds; with ``resume`` an existing one is gone on from, to the
        same result as an unbroken run.
    progress
        Called with (iterations, ELBO, its standard error) once a window.

    Raises ValueError for an argument, TargetError where the density is finite nowhere near the start.
    Statistical trouble is not an exception: it is in ``Fit.warnings`` and is warned of.
    """
    if method not in FAMILIES:
        raise ValueError(f"method must be one of {', '.join(FAMILIES)}, found {method!r}")
    if draws_per_step < 1:
        raise ValueError(f"draws_per_step must be at least 1, found {draws_per_step}")
    count = _importance_draws(importance_draws, target.dim)
    family = FAMILIES[method](target.dim)
    schedule = schedule or Schedule()
    seed = int(np.random.SeedSequence().entropy % 2**31) if seed is None else seed  # type: ignore[operator]
    start_rng, run_rng, draws_rng = (np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(3))
    began, before = time.perf_counter(), replace(target.counts)

    origin = find_start(target, start, dense=method == "fullrank", rng=start_rng)
    settings = {
        "method": method,
        "seed": seed,
        "start": start if isinstance(start, str) else "given",
        "draws_per_step": draws_per_step,
        "stick_the_landing": stick_the_landing,
        "schedule": vars(schedule) | {"learning_rates": list(schedule.learning_rates)},
    }
    objective = _ElboObjective(
        WhitenedTarget(target, origin.whitening), family, draws_per_step, stick_the_landing
    )
    optimum = maximize(
        objective,
        family.initial(),
        schedule,
        run_rng,
        progress,
        _checkpoint(checkpoint, resume, target, settings),
    )
    sample = _evaluate(target, origin, family, optimum.params, count, draws_rng)
    result = Fit(
        target=target,
        method=method,
        family=family,
        params=optimum.params,
        whitening=origin.whitening,
        importance=sample,
        trace=optimum.trace,
        stopped_by=optimum.stopped_by,
        iterations=optimum.iterations,
        seed=seed,
        settings=settings,
        start_note=origin.note,
        counts=_counts_since(before, target.counts),
        seconds=time.perf_counter() - began,
    )
    if optimum.stopped_by == "rejected":
        result.warnings.append(_name_rejected(target, sample, optimum))
    for message in result.warnings:
        warnings.warn(message, stacklevel=2)
    return result


def _importance_draws(asked: int | None, dim: int) -> int:
    if asked is None:
        return int(min(10_000, max(1_000, MAX_DRAWS_BYTES / (8 * dim))))
    if asked < 1:
        raise ValueError(f"importance_draws must be at least 1, found {asked}")
    return asked


def _counts_since(before: EvaluationCounts, now: EvaluationCounts) -> EvaluationCounts:
    numbers = ("log_density", "gradient", "hvp", "rejected")
    spent = {name: getattr(now, name) - getattr(before, name) for name in numbers}
    return EvaluationCounts(**spent, last_rejection=now.last_rejection if spent["rejected"] else "")


class _ElboObjective:
    """The ELBO at fresh noise: what the optimiser calls once an iteration."""

    def __init__(self, density: WhitenedTarget, family: Family, draws: int, stick_the_landing: bool) -> None:
        self._density = density
        self._family = family
        self._pairs, self._single = (0, draws) if draws % 2 else (draws // 2, 0)
        self._stick_the_landing = stick_the_landing

    def __call__(self, params: NDArray, rng: np.random.Generator) -> Estimate:
        dim = self._family.dim
        if self._pairs:
            half = rng.standard_normal((self._pairs, dim))
            eps = np.concatenate((half, -half))
        else:
            eps = rng.standard_normal((self._single, dim))
        return elbo(self._density, self._family, params, eps, self._stick_the_landing)


def _checkpoint(
    path: str | os.PathLike[str] | None, resume: bool, target: Target, settings: dict[str, Any]
) -> Checkpoint | None:
    if path is None:
        if resume:
            raise ValueError("resume needs the checkpoint file to resume from")
        return None
    program = target.program.code if target.program else target.name
    identity = json.dumps([program, target.data_json, settings], sort_keys=True)
    checkpoint = Checkpoint(path, hashlib.sha256(identity.encode()).hexdigest())
    if not resume:
        checkpoint.path.unlink(missing_ok=True)
    return checkpoint


def _evaluate(
    target: Target, start: Start, family: Family, params: NDArray, count: int, rng: np.random.Generator
) -> ImportanceSample:
    """Fresh draws of q and of a heavier-tailed version of it, with the densities at each."""
    noise = defensive_noise(count, target.dim, rng)
    sample = family.sample(params, noise.eps)
    z = start.whitening.to_z(sample.z)
    log_q = sample.log_q - start.whitening.log_det
    return importance_sample(z, target.log_density(z), log_q, log_q + noise.log_ratio, noise.n_q)


def _name_rejected(target: Target, sample: ImportanceSample, optimum: Optimum) -> str:
    """Name the parameter in which rejected and usable draws differ most, as far as there are both."""
    usable = np.isfinite(sample.log_p)
    text = (
        f"the run stopped after {optimum.iterations} iterations because the density was not finite at any "
        f"draw of most iterations ({target.counts.last_rejection or 'log density -inf'})"
    )
    if not usable.any():
        return text
    gap = np.abs(sample.z[usable].mean(axis=0) - sample.z[~usable].mean(axis=0)) / sample.z.std(axis=0)
    return f"{text}; usable and rejected draws differ most in {target.names[int(np.argmax(gap))]}"
