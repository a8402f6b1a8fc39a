"""Stochastic maximisation: Adam, a learning rate that falls on plateaus, a stopping rule, checkpoints.

Nothing here knows of variational inference: an objective is any callable that returns a noisy value and
gradient at a parameter vector.
"""

from __future__ import annotations

import json
import math
import os
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .checks import whole_number

#: A larger entry makes no step: its square overflows, and Adam's second moment would never be finite again.
LARGEST_GRADIENT = 1e150


class NoisyEstimate(Protocol):
    """What an objective returns; ``gradient`` is that of ascent and ``rejected`` counts unusable draws."""

    @property
    def value(self) -> float: ...
    @property
    def gradient(self) -> NDArray: ...
    @property
    def rejected(self) -> int: ...


Objective = Callable[[NDArray, np.random.Generator], NoisyEstimate]
#: Called after each window with (iterations done, mean value of the window, its standard error).
Progress = Callable[[int, float, float], None]


#: A gradient further than this many times its running size from zero is an outlier.
CLIP = 5.0
BETA1, BETA2 = 0.9, 0.99


@dataclass(frozen=True)
class Schedule:
    """How long to optimise and with which steps.

    Each learning rate is a stage. A stage ends when the mean objective of its last quarter exceeds that of
    the quarter before by no more than ``tolerance`` plus one standard error, looked at once a ``window`` of
    iterations and never before two windows. The last stage is also the one whose iterates are averaged: it
    lasts at least four windows, and until the standard error of the averaged parameters (root mean square
    over parameters, from the spread of window means) is at most ``iterate_tolerance``, or twenty windows.
    The run has converged when the last stage ended so.

    A ``fixed`` run has one learning rate and no stopping rule: it goes on for ``max_iterations``, and the
    average is that of its last window. ``beta2`` and ``clip`` are Adam's, see ``_adam_step``.
    """

    learning_rates: tuple[float, ...] = (0.1, 0.03, 0.01)
    window: int = 100
    tolerance: float = 0.01
    iterate_tolerance: float = 0.01
    max_iterations: int = 10_000
    fixed: bool = False
    beta2: float = BETA2
    clip: float | None = CLIP

    def __post_init__(self) -> None:
        if not self.learning_rates or min(self.learning_rates) <= 0:
            raise ValueError(f"learning_rates must be positive, found {self.learning_rates}")
        for name, least in (("window", 2), ("max_iterations", 1)):
            object.__setattr__(self, name, whole_number(name, getattr(self, name), least))
        if self.fixed and len(self.learning_rates) != 1:
            raise ValueError(f"a fixed run has one of learning_rates, found {self.learning_rates}")


@dataclass
class Trace:
    """The objective, one entry a window: iterations done, mean, standard error, learning rate."""

    iteration: list[int] = field(default_factory=list)
    value: list[float] = field(default_factory=list)
    se: list[float] = field(default_factory=list)
    learning_rate: list[float] = field(default_factory=list)


@dataclass
class Optimum:
    """Where a run ended.

    ``params`` is the average iterate of the last stage. ``stopped_by`` is "converged", "max_iterations",
    "fixed_length" (as asked for), or "rejected" (for five windows on end, most iterations had no usable
    draw).
    """

    params: NDArray
    stopped_by: str
    iterations: int
    rejected: int
    trace: Trace


@dataclass
class _State:
    """Everything that a resumed run needs to go on exactly as the unbroken one would have."""

    params: NDArray
    first_moment: NDArray
    second_moment: NDArray
    average: NDArray  # over the present stage
    spread: NDArray  # sum of squared deviations of the stage's window means from their mean
    memory: NDArray  # the objective's own
    iteration: int = 0
    stage: int = 0
    windows: int = 0  # of the present stage
    rejected: int = 0
    bad_windows: int = 0
    values: list[float] = field(default_factory=list)  # of the present stage
    trace: Trace = field(default_factory=Trace)

    @classmethod
    def start(cls, params: NDArray, memory: NDArray) -> _State:
        zeros = np.zeros_like(params)
        return cls(params.copy(), zeros.copy(), zeros.copy(), params.copy(), zeros.copy(), memory)

    def add_window(self, mean: NDArray) -> None:
        """Take a window's mean iterate into the stage's average (Welford's recurrence)."""
        self.windows += 1
        before = mean - self.average
        self.average = self.average + before / self.windows
        self.spread = self.spread + before * (mean - self.average)

    def average_se(self) -> float:
        """Standard error of the averaged iterate, root mean square over parameters."""
        variance = self.spread / (self.windows * max(self.windows - 1, 1))
        return float(np.sqrt(variance.mean()))

    def next_stage(self) -> None:
        self.stage += 1
        self.windows = 0
        self.values = []
        self.params = self.average.copy()


_ARRAYS = ("params", "first_moment", "second_moment", "average", "spread", "memory")
_COUNTS = ("iteration", "stage", "windows", "rejected", "bad_windows", "values")


#: Seconds between two writes of a checkpoint.
CHECKPOINT_SECONDS = 5.0


class Checkpoint:
    """A file to which a run writes its state every few seconds, and from which it resumes.

    ``identity`` names the problem (program, data, method, seed): a file written by another problem is
    refused with a ValueError rather than resumed. ``seed`` is written beside, so that a run whose seed came
    from the system can be resumed by those who never saw it.
    """

    def __init__(self, path: str | os.PathLike[str], identity: str, seed: int | None = None) -> None:
        self.path = Path(path)
        self.identity = identity
        self.seed = seed
        self._last = time.monotonic()

    def save(self, state: _State, rng: np.random.Generator, force: bool = False) -> None:
        if not force and time.monotonic() - self._last < CHECKPOINT_SECONDS:
            return
        meta = {name: getattr(state, name) for name in _COUNTS}
        meta |= {"identity": self.identity, "seed": self.seed}
        meta |= {"trace": vars(state.trace), "rng": rng.bit_generator.state}
        partial = self.path.with_name(self.path.name + ".partial")
        with partial.open("wb") as file:
            np.savez(
                file,
                **{name: getattr(state, name) for name in _ARRAYS},
                meta=np.array(json.dumps(meta)),
            )
        os.replace(partial, self.path)
        self._last = time.monotonic()

    def load(self, rng: np.random.Generator, memory: NDArray) -> _State | None:
        """The saved state, with ``rng`` and ``memory`` as they were; None where there is no file yet."""
        if not self.path.exists():
            return None
        meta, arrays = _read_checkpoint(self.path)
        if meta["identity"] != self.identity:
            raise ValueError(
                f"checkpoint {self.path} belongs to another run (program, data, method, settings or seed "
                "differ); delete it or choose another file"
            )
        rng.bit_generator.state = meta["rng"]
        memory[...] = arrays["memory"]
        arrays["memory"] = memory
        state = _State(**arrays, **{name: meta[name] for name in _COUNTS})
        state.trace = Trace(**meta["trace"])
        return state


def _read_checkpoint(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    try:
        with np.load(path, allow_pickle=False) as file:
            return json.loads(str(file["meta"])), {name: file[name] for name in _ARRAYS}
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} is not a checkpoint of this version; delete it") from error


def saved_seed(path: str | os.PathLike[str]) -> int | None:
    """The seed of the run that wrote a checkpoint; None where there is no file, or none was written."""
    file = Path(path)
    return _read_checkpoint(file)[0].get("seed") if file.exists() else None


def _adam_step(
    state: _State, gradient: NDArray, learning_rate: float, beta2: float, clip: float | None
) -> None:
    """One ascent step of Adam (Kingma & Ba 2015), in place.

    Log densities fall off steeply, so that one draw in a far tail can give a gradient of any size, which
    would hold up Adam's second moment, and with it all progress, for 1 / (1 - beta2) iterations. Components
    beyond ``clip`` times their running root mean square are therefore clipped, and beta2 is 0.99 by default.
    """
    t = state.iteration + 1
    work = np.sqrt(state.second_moment)
    if clip is not None and t > 10:
        work *= clip / math.sqrt(1.0 - beta2 ** (t - 1))
        gradient = np.minimum(gradient, work)
        np.negative(work, out=work)
        np.maximum(gradient, work, out=gradient)
    # In place, since a small model's step costs no more than the handful of array operations in it.
    np.subtract(gradient, state.first_moment, out=work)
    work *= 1.0 - BETA1
    state.first_moment += work
    np.multiply(gradient, gradient, out=work)
    work -= state.second_moment
    work *= 1.0 - beta2
    state.second_moment += work
    np.sqrt(state.second_moment, out=work)
    work *= 1.0 / math.sqrt(1.0 - beta2**t)
    work += 1e-8
    np.divide(state.first_moment, work, out=work)
    work *= learning_rate / (1.0 - BETA1**t)
    state.params += work


def mean_and_se(values: NDArray) -> tuple[float, float]:
    """Mean of the finite values and its standard error; (-inf, inf) where there are none."""
    finite = values[np.isfinite(values)]
    if not len(finite):
        return -np.inf, np.inf
    return float(finite.mean()), float(finite.std() / np.sqrt(len(finite)))


def _plateau(values: list[float], tolerance: float) -> bool:
    """Whether the last quarter of a stage is no better than the one before it, beyond noise."""
    quarter = len(values) // 4
    early, early_se = mean_and_se(np.asarray(values[-2 * quarter : -quarter]))
    late, late_se = mean_and_se(np.asarray(values[-quarter:]))
    return bool(np.isfinite(late) and late - early <= tolerance + np.hypot(early_se, late_se))


def _window(
    state: _State, objective: Objective, rng: np.random.Generator, schedule: Schedule, length: int
) -> float:
    """Run ``length`` iterations; returns the share of them in which every draw was rejected."""
    total = np.zeros_like(state.params)
    rate = schedule.learning_rates[state.stage]
    bad = 0
    for _ in range(length):
        estimate = objective(state.params, rng)
        state.values.append(estimate.value)
        if estimate.rejected:
            state.rejected += estimate.rejected
            bad += estimate.value == -np.inf
        gradient = estimate.gradient
        if np.abs(gradient).max() < LARGEST_GRADIENT:  # False for NaN, too
            _adam_step(state, gradient, rate, schedule.beta2, schedule.clip)
        elif not estimate.rejected:
            state.rejected += 1
        total += state.params
        state.iteration += 1
    if state.windows == 0:
        state.average, state.spread = np.zeros_like(total), np.zeros_like(total)
    state.add_window(total / length)
    return bad / length


def _end_of_stage(state: _State, schedule: Schedule) -> bool:
    if schedule.fixed:
        return False
    last = state.stage == len(schedule.learning_rates) - 1
    if state.windows < (4 if last else 2) or not _plateau(state.values, schedule.tolerance):
        return False
    return not last or state.windows >= 20 or state.average_se() <= schedule.iterate_tolerance


def maximize(
    objective: Objective,
    params: NDArray,
    schedule: Schedule,
    rng: np.random.Generator,
    progress: Progress | None = None,
    checkpoint: Checkpoint | None = None,
    memory: NDArray | None = None,
) -> Optimum:
    """Maximise a noisy objective from ``params``; resumes from ``checkpoint`` where its file exists.

    ``memory`` is an array that the objective changes in place; a resumed run gets it back as it was.
    """
    memory = np.empty(0) if memory is None else memory
    state = checkpoint.load(rng, memory) if checkpoint else None
    state = state or _State.start(params, memory)
    while (stopped_by := _stopped_by(state, schedule)) is None:
        rate = schedule.learning_rates[state.stage]
        length = min(schedule.window, schedule.max_iterations - state.iteration)
        if schedule.fixed:  # only the last window counts
            state.windows, state.values = 0, []
        bad_share = _window(state, objective, rng, schedule, length)
        state.bad_windows = state.bad_windows + 1 if bad_share > 0.5 else 0
        _record(state, rate, length, progress)
        if _end_of_stage(state, schedule):
            state.next_stage()
        if checkpoint:
            checkpoint.save(state, rng)
    if checkpoint:
        checkpoint.save(state, rng, force=True)
    return Optimum(state.average, stopped_by, state.iteration, state.rejected, state.trace)


def _stopped_by(state: _State, schedule: Schedule) -> str | None:
    if state.stage == len(schedule.learning_rates):
        return "converged"
    if state.bad_windows >= 5:
        return "rejected"
    if state.iteration < schedule.max_iterations:
        return None
    return "fixed_length" if schedule.fixed else "max_iterations"


def _record(state: _State, rate: float, length: int, progress: Progress | None) -> None:
    value, se = mean_and_se(np.asarray(state.values[-length:]))
    state.trace.iteration.append(state.iteration)
    state.trace.value.append(value)
    state.trace.se.append(se)
    state.trace.learning_rate.append(rate)
    if progress:
        progress(state.iteration, value, se)
