"""A Stan program on batches of its observations, each opened once.

A BridgeStan model takes its data when it is made. The observations are therefore divided into batches once;
each has a model of its own from the one compiled library, and an optimiser's step takes one of them: nothing
is parsed again. A last model without any observation gives the density of the shared parameters alone, which
a batch's density must not count more than once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import DaisStanError
from ..target import Target

#: Makes the target of a program for other data.
Opener = Callable[[dict[str, Any]], Target]


@dataclass(frozen=True)
class Batch:
    """B observations: their target, the encoder's input (B, I), and the places of their parameters.

    ``local`` (B, L) are the places of each observation's own parameters in the target's vector, ``shared``
    (S,) those of the others.
    """

    target: Target
    inputs: NDArray
    local: NDArray
    shared: NDArray


@dataclass(frozen=True)
class Batches:
    """All observations in batches, and the program without any."""

    each: tuple[Batch, ...]
    prior: Target | None  # None where there is no shared parameter
    inputs: NDArray  # the encoder's, of all observations in the data's order, (N, I)

    @property
    def count(self) -> int:
        return len(self.inputs)

    @property
    def local_dim(self) -> int:
        return self.each[0].local.shape[1]

    @property
    def shared_names(self) -> tuple[str, ...]:
        first = self.each[0]
        return tuple(first.target.names[i] for i in first.shared)


def divide(
    open_target: Opener,
    data: dict[str, Any],
    local: Sequence[str],
    condition: Sequence[str],
    size: int,
    rng: np.random.Generator,
) -> Batches:
    """Batches of at most ``size`` observations in random order.

    ``local`` names the program's local parameters and ``condition`` the data that belong to them, both with
    observations along their first axis. How many observations there are is the integer in the data with which
    both change their size. Raises ValueError where there is no such integer, or where the program does not
    admit it to be zero although there are shared parameters.
    """
    arrays, inputs = _conditions(data, condition)
    count = len(inputs)
    counter = _counter(open_target, data, arrays, local, count)

    def some(rows: NDArray) -> dict[str, Any]:
        return {**data, counter: len(rows), **{name: array[rows] for name, array in arrays.items()}}

    order = rng.permutation(count)
    each = []
    for begin in range(0, count, size):
        rows = order[begin : begin + size]
        target = open_target(some(rows))
        each.append(Batch(target, inputs[rows], *places(target, local, len(rows))))
        _check_sizes(each[0], each[-1], counter)
    _check_rows_apart(each[0], local, rng)
    prior = None
    if len(each[0].shared):
        try:
            prior = open_target(some(order[:0]))
        except DaisStanError as error:
            raise ValueError(
                f"the program must admit {counter} = 0, to tell the shared parameters' prior apart: {error}"
            ) from error
        none = np.empty((0, each[0].local.shape[1]), dtype=int)
        _check_sizes(each[0], Batch(prior, inputs[:0], none, np.arange(prior.dim)), counter)
    return Batches(tuple(each), prior, inputs)


def _conditions(data: dict[str, Any], condition: Sequence[str]) -> tuple[dict[str, NDArray], NDArray]:
    """The data named by ``condition``, and as the encoder's input, (N, I). Raises ValueError."""
    if missing := [name for name in condition if name not in data]:
        raise ValueError(f"condition must name data, and {', '.join(missing)} is not among {sorted(data)}")
    arrays = {name: np.asarray(data[name]) for name in condition}
    counts = {len(array) for array in arrays.values() if array.ndim}
    if len(counts) != 1 or not all(array.ndim for array in arrays.values()):
        raise ValueError(f"condition must name arrays with one row for each observation, found {counts}")
    if counts == {0}:
        raise ValueError(f"there must be at least one observation, found none in {', '.join(condition)}")
    for name, array in arrays.items():
        if not np.isfinite(array.astype(float)).all():
            raise ValueError(f"condition {name} must be finite, being the encoder's input")
    rows = [array.reshape(len(array), -1) for array in arrays.values()]
    return arrays, np.concatenate(rows, axis=1).astype(float)


def _counter(
    open_target: Opener, data: dict[str, Any], arrays: dict[str, NDArray], local: Sequence[str], count: int
) -> str:
    """Name of the integer that says how many observations there are."""
    same = [name for name, value in data.items() if np.ndim(value) == 0 and value == count]
    other = np.zeros(1 if count > 1 else 2, dtype=int)  # rows of another number of observations
    fitting = []
    for name in same:
        fewer = {**data, name: len(other), **{key: array[other] for key, array in arrays.items()}}
        try:
            places(open_target(fewer), local, len(other))
        except (DaisStanError, ValueError):
            continue
        fitting.append(name)
    if len(fitting) != 1:
        raise ValueError(
            f"no single integer in the data sizes both {', '.join(local)} and {', '.join(arrays)} by {count} "
            f"observations; {same or 'none'} has this value and {fitting or 'none'} fits"
        )
    return fitting[0]


def _check_sizes(first: Batch, batch: Batch, counter: str) -> None:
    """Raise ValueError where anything but the number of the local parameters' rows depends on ``counter``."""
    shared, mine = ([b.target.names[i] for i in b.shared] for b in (first, batch))
    if changing := {name.split(".")[0] for name in set(shared) ^ set(mine)}:
        raise ValueError(
            f"{', '.join(sorted(changing))} must be named local: its size changes with {counter}"
        )
    if first.local.shape[1] != batch.local.shape[1]:
        raise ValueError(f"a row of the local parameters must have one size, and it changes with {counter}")


def _check_rows_apart(batch: Batch, local: Sequence[str], rng: np.random.Generator) -> None:
    """Raise ValueError where one observation's parameters have a part in another's density.

    Moving the first row must leave the gradient in all others as it was; only then do batches add up.
    """
    point = rng.standard_normal(batch.target.dim)
    moved = point.copy()
    moved[batch.local[0]] += 0.5
    (value, gradient), (other, after) = map(batch.target.log_density_gradient, (point, moved))
    rest = batch.local[1:]
    if not (np.isfinite(value) and np.isfinite(other)) or not rest.size:
        return  # the fit says what is not finite
    if np.abs(after[rest] - gradient[rest]).max() > 1e-6 * max(1.0, np.abs(gradient[rest]).max()):
        raise ValueError(
            f"rows of {', '.join(local)} must be independent given the shared parameters, and one moves the "
            "density of another's"
        )


def places(target: Target, local: Sequence[str], count: int) -> tuple[NDArray, NDArray]:
    """Places of the local parameters, a row for each observation, and of the shared ones."""
    rows: list[list[int]] = [[] for _ in range(count)]
    shared = []
    for place, name in enumerate(target.names):
        variable, *index = name.split(".")
        if variable not in local:
            shared.append(place)
        elif index and int(index[0]) <= count:
            rows[int(index[0]) - 1].append(place)
        else:
            raise ValueError(f"local parameter {variable} must have one row for each of {count} observations")
    if len({len(row) for row in rows}) != 1 or not rows[0]:
        raise ValueError(
            f"local must name parameters with {count} rows of one size, found {', '.join(local)} among "
            f"{', '.join(target.variables)}"
        )
    return np.array(rows), np.array(shared, dtype=int)
