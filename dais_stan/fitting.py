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
from numpy.typing import ArrayLike

from .approximation import Fit
from .checks import chosen_seed, whole_number
from .importance import ImportanceSample
from .methods import make_method, options_of
from .optimize import Checkpoint, Optimum, Progress, Schedule, maximize, saved_seed
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
    start: str | ArrayLike | Mapping[str, Any] | Start | None = None,
    schedule: Schedule | None = None,
    importance_draws: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
    progress: Progress | None = None,
    preset: str | None = None,
    **options: Any,
) -> Fit:
    """Approximate the posterior of ``target`` by a variational family.

    method
        "auto" (the simplest of a short ladder that passes its own checks; see ``dais_stan.auto``);
        "meanfield" (diagonal Gaussian) or "fullrank" (Gaussian with any covariance), both on the
        unconstrained space, maximising the ELBO; "flow" (the same for a normalising flow); "iwvi" (the
        bound of N particles); "dais0" and "dais" (annealed importance sampling with N particles and K
        transitions: the fit is q0, or the ends of the trajectories with their weights); "msc" (Markovian
        score climbing).
    seed
        An integer; the same seed gives the same fit, whatever the number of threads. None takes that of the
        checkpoint which is resumed, or one from the system, and records it.
    start
        "mode" (with its curvature; the default), "pathfinder", "zero", unconstrained values (D,), or a
        mapping of the model's variables to values. The optimiser works in coordinates whitened by it.
    schedule
        Learning rates, window, tolerance and the most iterations; see ``dais_stan.optimize.Schedule``.
        None: the method's own.
    importance_draws
        Fresh draws for the evidence, k-hat and the importance-weighted posterior; 10,000 by default, fewer
        where they would not fit in 200 MB.
    checkpoint, resume
        A file that is written every few seconds; with ``resume`` an existing one is gone on from, to the
        same result as an unbroken run.
    progress
        Called with (iterations, the objective, its standard error) once a window.

    preset
        "paper": the settings of Zenn & Bamler (2024) for iwvi, dais0, dais and msc, in place of the defaults.
    options
        Those of the method, all fields of its record in ``dais_stan.methods``; the chief ones:
        ``draws_per_step`` and ``stick_the_landing`` (meanfield, fullrank); ``particles`` N (iwvi, dais0,
        dais, msc); ``transitions`` K, ``mass`` "diagonal" or "scaled", and ``learn``, the parts that are
        learned (dais0, dais); ``chains`` (msc); ``family`` of q or q0 (these four, and flow): "meanfield",
        "fullrank", or a flow, "planar", "iaf", "o-sylvester", "h-sylvester" or "t-sylvester", with
        ``flows``, how many, and for o-sylvester ``columns``.

    Raises ValueError for an argument, TargetError where the density is finite nowhere near the start.
    Statistical trouble is not an exception: it is in ``Fit.warnings`` and is warned of.
    """
    if seed is None and resume and checkpoint is not None:
        seed = saved_seed(checkpoint)
    seed = chosen_seed(seed)
    if method == "auto":
        return _auto(
            target,
            start,
            preset,
            options,
            seed=seed,
            importance_draws=importance_draws,
            schedule=schedule,
            checkpoint=checkpoint,
            resume=resume,
            progress=progress,
        )
    chosen = make_method(method, preset, **options)
    count = importance_count(importance_draws, target.dim)
    family = chosen.make_family(target.dim)
    schedule = schedule or chosen.schedule
    start = chosen.start if start is None else start
    start_rng, run_rng, draws_rng = (np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(3))
    began, before = time.perf_counter(), replace(target.counts)

    origin = find_start(target, start, dense=chosen.family != "meanfield", rng=start_rng)
    settings = {
        "method": method,
        "seed": seed,
        "preset": preset,
        "options": options_of(chosen),
        "start": start if isinstance(start, str) else "given",
        "schedule": vars(schedule) | {"learning_rates": list(schedule.learning_rates)},
    }
    density = WhitenedTarget(target, origin.whitening)
    objective = chosen.objective(density, family)
    optimum = maximize(
        objective,
        objective.initial(run_rng),
        schedule,
        run_rng,
        progress,
        _checkpoint(checkpoint, resume, target, settings),
        objective.memory,
    )
    fit_type, reported = chosen.report(objective, optimum.params, density, count, draws_rng)
    result = fit_type(
        target=target,
        method=method,
        family=family,
        params=objective.q(optimum.params),
        whitening=origin.whitening,
        trace=optimum.trace,
        stopped_by=optimum.stopped_by,
        iterations=optimum.iterations,
        seed=seed,
        settings=settings,
        start_note=origin.note,
        counts=counts_since(before, target.counts),
        seconds=time.perf_counter() - began,
        **reported,
    )
    if optimum.stopped_by == "rejected":
        result.warnings.append(_name_rejected(target, result.importance, optimum))
    for message in result.warnings:
        warnings.warn(message, stacklevel=2)
    return result


def _auto(target: Target, start: Any, preset: str | None, options: dict[str, Any], **rest: Any) -> Fit:
    from .auto import fit_auto  # which needs fit

    given = [*(["start"] if start is not None else []), *(["preset"] if preset else []), *options]
    if given:
        raise ValueError(f"method 'auto' takes no {', '.join(given)}: it chooses for itself")
    return fit_auto(target, **rest)


def importance_count(asked: int | None, dim: int) -> int:
    """How many importance draws to take of a target with ``dim`` parameters; None leaves it to us."""
    if asked is None:
        return int(min(10_000, max(1_000, MAX_DRAWS_BYTES / (8 * dim))))
    return whole_number("importance_draws", asked, 1)


def counts_since(before: EvaluationCounts, now: EvaluationCounts) -> EvaluationCounts:
    """The evaluations between two readings of a target's counts."""
    numbers = ("log_density", "gradient", "hvp", "rejected")
    spent = {name: getattr(now, name) - getattr(before, name) for name in numbers}
    return EvaluationCounts(**spent, last_rejection=now.last_rejection if spent["rejected"] else "")


def _checkpoint(
    path: str | os.PathLike[str] | None, resume: bool, target: Target, settings: dict[str, Any]
) -> Checkpoint | None:
    if path is None:
        if resume:
            raise ValueError("resume needs the checkpoint file to resume from")
        return None
    program = target.program.code if target.program else target.name
    identity = json.dumps([program, target.data_json, settings], sort_keys=True)
    checkpoint = Checkpoint(path, hashlib.sha256(identity.encode()).hexdigest(), settings["seed"])
    if not resume:
        checkpoint.path.unlink(missing_ok=True)
    return checkpoint


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
