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
    count: int

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
    arrays, inputs = conditions(data, condition)
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
    prior = None
    if len(each[0].shared):
        try:
            prior = open_target(some(order[:0]))
        except DaisStanError as error:
            raise ValueError(
                f"the program must admit {counter} = 0, to tell the shared parameters' prior apart: {error}"
            ) from error
    return Batches(tuple(each), prior, count)


def conditions(data: dict[str, Any], condition: Sequence[str]) -> tuple[dict[str, NDArray], NDArray]:
    """The data named by ``condition``, and as the encoder's input, (N, I). Raises ValueError."""
    if missing := [name for name in condition if name not in data]:
        raise ValueError(f"condition must name data, and {', '.join(missing)} is not among {sorted(data)}")
    arrays = {name: np.asarray(data[name]) for name in condition}
    counts = {len(array) for array in arrays.values() if array.ndim}
    if len(counts) != 1 or not all(array.ndim for array in arrays.values()):
        raise ValueError(f"condition must name arrays with one row for each observation, found {counts}")
    rows = [array.reshape(len(array), -1) for array in arrays.values()]
    return arrays, np.concatenate(rows, axis=1).astype(float)


def _counter(
    open_target: Opener, data: dict[str, Any], arrays: dict[str, NDArray], local: Sequence[str], count: int
) -> str:
    """Name of the integer that says how many observations there are."""
    same = [name for name, value in data.items() if np.ndim(value) == 0 and value == count]
    fitting = []
    for name in same:
        one = {**data, name: 1, **{key: array[:1] for key, array in arrays.items()}}
        try:
            places(open_target(one), local, 1)
        except (DaisStanError, ValueError):
            continue
        fitting.append(name)
    if len(fitting) != 1:
        raise ValueError(
            f"no single integer in the data sizes both {', '.join(local)} and {', '.join(arrays)} by {count} "
            f"observations; {same or 'none'} has this value and {fitting or 'none'} fits"
        )
    return fitting[0]


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
