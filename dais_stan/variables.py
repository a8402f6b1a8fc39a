"""Stan's variables with their declared shapes, and where each element stands in Stan's flat vector."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dais_stan.engines.program import Declaration, ProgramInfo
from dais_stan.errors import TargetError

BLOCKS = ("parameters", "transformed_parameters", "generated_quantities")

_STEP = re.compile(r"([.:])([^.:]+)")


@dataclass(frozen=True)
class Variable:
    """A real variable of a Stan program.

    A tuple appears as one variable for each element ("t.1", "t.2"), a complex number as its parts ("z.real",
    "z.imag"), so that every variable is one array of reals.

    Attributes:
        shape: as declared.
        block: one of BLOCKS.
        columns: position of each element in the flat constrained vector; its shape is ``shape``.
    """

    shape: tuple[int, ...]
    block: str
    columns: NDArray[np.intp] = field(repr=False, compare=False)


def declared_variables(
    flat_names: Sequence[str], block_ends: Sequence[int], info: ProgramInfo
) -> dict[str, Variable]:
    """The variables of a Stan program in declared order, those of size 0 included.

    Args:
        flat_names: Stan's names of all constrained values, such as "theta.2", "at.1:2", "z.real".
        block_ends: number of flat names up to the end of each of BLOCKS.
        info: what the program declares.
    """
    found = named_variables(flat_names, block_ends)
    variables = {}
    for block in BLOCKS:
        for declared, declaration in getattr(info, block).items():
            for name, n_dims in _leaves(declared, declaration):
                empty = np.empty((0,) * n_dims, dtype=np.intp)
                variables[name] = found.get(name) or Variable(empty.shape, block, empty)
    return variables


def named_variables(flat_names: Sequence[str], block_ends: Sequence[int]) -> dict[str, Variable]:
    """The variables that flat names speak of, in their order."""
    places: dict[str, dict[tuple[int, ...], int]] = {}
    for column, flat_name in enumerate(flat_names):
        name, index = _split(flat_name)
        places.setdefault(name, {})[index] = column
    variables = {}
    for name, columns_at in places.items():
        shape = tuple(int(size) for size in np.max(list(columns_at), axis=0)) if () not in columns_at else ()
        columns = np.empty(shape, dtype=np.intp)
        for index, column in columns_at.items():
            columns[tuple(i - 1 for i in index)] = column
        first = min(columns_at.values())
        block = BLOCKS[int(np.searchsorted(block_ends, first, side="right"))]
        variables[name] = Variable(shape, block, columns)
    return variables


def flatten(values: Mapping[str, ArrayLike], variables: Mapping[str, Variable]) -> NDArray[np.float64]:
    """Put the values of all parameters at their places in Stan's flat vector.

    Raises:
        TargetError: a parameter is missing or does not have its declared shape.
    """
    parameters = {name: v for name, v in variables.items() if v.block == "parameters"}
    flat = np.empty(sum(v.columns.size for v in parameters.values()))
    for name, variable in parameters.items():
        if name not in values and variable.columns.size > 0:
            raise TargetError(f'Parameter "{name}": expected shape {variable.shape}, but it has no value.')
        array = np.asarray(values.get(name, np.empty(variable.shape)), dtype=np.float64)
        if array.shape != variable.shape and variable.columns.size > 0:
            raise TargetError(f'Parameter "{name}": expected shape {variable.shape}, found {array.shape}.')
        flat[variable.columns] = array.reshape(variable.shape)
    return flat


def _leaves(name: str, declaration: Declaration, outer_dims: int = 0) -> Iterator[tuple[str, int]]:
    """Name and number of dimensions of every real array that a declared variable consists of."""
    n_dims = outer_dims + declaration.n_dims
    if not isinstance(declaration.type, str):
        for i, element in enumerate(declaration.type):
            yield from _leaves(f"{name}.{i + 1}", element, n_dims)
    elif declaration.type == "complex":
        yield f"{name}.real", n_dims
        yield f"{name}.imag", n_dims
    else:
        yield name, n_dims


def _split(flat_name: str) -> tuple[str, tuple[int, ...]]:
    """Variable and 1-based index: "at.3:2.1" is element (3, 1) of "at.2"."""
    name = re.match(r"[^.:]*", flat_name)[0]  # type: ignore[index]
    index: list[int] = []
    for separator, word in _STEP.findall(flat_name):
        if separator == "." and word.isdigit():
            index.append(int(word))
        else:
            name += f".{word}"
    return name, tuple(index)
