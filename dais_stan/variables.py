"""Stan's variables with their declared shapes, and where each element stands in Stan's flat vector."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dais_stan.engines.program import Declaration, ProgramInfo, StanProgram
from dais_stan.errors import TargetError

BLOCKS = ("parameters", "transformed_parameters", "generated_quantities")

_STEP = re.compile(r"([.:])([^.:]+)")
_INCLUDE = re.compile(r'#include[ \t]+[<"]?([^>"\s]+)[>"]?')
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_BLOCK_START = {
    "parameters": r"(?:\A|\})\s*parameters\s*\{",
    "transformed_parameters": r"\btransformed\s+parameters\s*\{",
    "generated_quantities": r"\bgenerated\s+quantities\s*\{",
}
_SIZES = r"((?:[^\[\]]|\[[^\]]*\])+)"  # size expressions, which may have an index of their own


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
    flat_names: Sequence[str],
    block_ends: Sequence[int],
    info: ProgramInfo,
    program: StanProgram,
    data: Mapping[str, Any],
) -> dict[str, Variable]:
    """The variables of a Stan program in declared order, those of size 0 included.

    Args:
        flat_names: Stan's names of all constrained values, such as "theta.2", "at.1:2", "z.real".
        block_ends: number of flat names up to the end of each of BLOCKS.
        info: what the program declares.
        program, data: for the sizes of variables that have no element.
    """
    found = named_variables(flat_names, block_ends)
    variables = {}
    for block in BLOCKS:
        text = _declarations(program, block)
        for declared, declaration in getattr(info, block).items():
            for name, n_dims in _leaves(declared, declaration):
                if name in found:
                    variables[name] = found[name]
                else:
                    shape = _empty_shape(declared, n_dims, text, data)
                    variables[name] = Variable(shape, block, np.empty(shape, dtype=np.intp))
    return variables


def coordinate_names(stan_names: Sequence[str], program: StanProgram) -> tuple[str, ...]:
    """The name of each unconstrained coordinate.

    Stan names the coordinates of an array with its first index running fastest, yet reads them one element
    of the array after another: the second coordinate of ``array[2] vector[3] v`` is v[1,2], not v[2,1].
    Here each name is put at the place that Stan reads. Arrays within a tuple keep Stan's names.
    """
    text = _declarations(program, "parameters")
    names: list[str] = []
    for variable, group in groupby(stan_names, key=_variable_of):
        sizes = _declared_sizes(variable, text)
        array_dims = len(sizes[0]) if sizes else 0
        of_variable = list(group)
        if array_dims and not any(":" in name for name in of_variable):
            of_variable.sort(key=lambda name: _reading_order(name, array_dims))
        names += of_variable
    return tuple(names)


def _reading_order(flat_name: str, array_dims: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Array elements in row-major order, and within one of them column-major."""
    _, index = _split(flat_name)
    return index[:array_dims], index[array_dims:][::-1]


def named_variables(flat_names: Sequence[str], block_ends: Sequence[int]) -> dict[str, Variable]:
    """The variables that flat names speak of, in their order."""
    places: dict[str, list[int]] = {}
    for place, name in enumerate(flat_names):
        places.setdefault(_variable_of(name), []).append(place)
    variables = {}
    for at in places.values():
        block = BLOCKS[int(np.searchsorted(block_ends, at[0], side="right"))]
        for name, columns in _columns([flat_names[place] for place in at]):
            variables[name] = Variable(columns.shape, block, np.array(at)[columns])
    return variables


def _variable_of(flat_name: str) -> str:
    """The declared variable that a flat name belongs to, a tuple as a whole."""
    return flat_name.partition(".")[0].partition(":")[0]


def _array_names(name: str, shape: tuple[int, ...]) -> list[str]:
    """Stan's names of an array's elements: the first index runs fastest."""
    names = [name]
    for size in shape:
        names = [f"{head}.{i}" for i in range(1, size + 1) for head in names]
    return names


def _columns(names: Sequence[str]) -> Iterator[tuple[str, NDArray[np.intp]]]:
    """Each array of reals of one declared variable, with the place of every element among its names."""
    name, *last = names[-1].split(".")
    if ":" not in name and all(word.isdigit() for word in last):
        # All but tuples and complex numbers; a hundred thousand names are read ten times as fast like this.
        shape = tuple(int(word) for word in last)
        if np.prod(shape) == len(names) and names == _array_names(name, shape):
            yield name, np.arange(len(names), dtype=np.intp).reshape(shape, order="F")
            return
    places: dict[str, dict[tuple[int, ...], int]] = {}
    for column, flat_name in enumerate(names):
        name, index = _split(flat_name)
        places.setdefault(name, {})[index] = column
    for name, columns_at in places.items():
        shape = tuple(int(size) for size in np.max(list(columns_at), axis=0)) if () not in columns_at else ()
        columns = np.empty(shape, dtype=np.intp)
        for index, column in columns_at.items():
            columns[tuple(i - 1 for i in index)] = column
        yield name, columns


def flatten(values: Mapping[str, ArrayLike], variables: Mapping[str, Variable]) -> NDArray[np.float64]:
    """Put the values of all parameters at their places in Stan's flat vector.

    Raises:
        TargetError: a parameter is missing or does not have its declared shape.
    """
    parameters = {name: v for name, v in variables.items() if v.block == "parameters"}
    flat = np.empty(sum(v.columns.size for v in parameters.values()))
    for name, variable in parameters.items():
        if variable.columns.size == 0:
            continue
        if name not in values:
            raise TargetError(f'Parameter "{name}": expected shape {variable.shape}, but it has no value.')
        array = np.asarray(values[name], dtype=np.float64)
        if array.shape != variable.shape:
            raise TargetError(f'Parameter "{name}": expected shape {variable.shape}, found {array.shape}.')
        flat[variable.columns] = array
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


def _empty_shape(name: str, n_dims: int, text: str, data: Mapping[str, Any]) -> tuple[int, ...]:
    """Shape of a variable without elements, of which Stan's flat names say nothing.

    Read from the declaration where its sizes are numbers or integers of the data; all 0 where they are not.
    """
    array_sizes, inner_sizes = _declared_sizes(name, text) or ([], [])
    known = {
        key: int(value) for key, value in data.items() if isinstance(value, np.ndarray) and value.ndim == 0
    }
    shape = tuple(
        int(size) if size.isdigit() else known.get(size, 0) for size in (*array_sizes, *inner_sizes)
    )
    return shape if len(shape) == n_dims and 0 in shape else (0,) * n_dims


def _declarations(program: StanProgram, block: str) -> str:
    """The program's text from the start of a block on, with included files and without comments."""
    text, includes = program.code, dict(program.includes)
    for _ in range(len(includes) + 1):  # an included file may include others
        text = _INCLUDE.sub(lambda match: includes.get(match[1], ""), text)
    text = _COMMENT.sub(" ", text)
    start = re.search(_BLOCK_START[block], text)
    return text[start.end() :] if start else ""


def _declared_sizes(name: str, text: str) -> tuple[list[str], list[str]] | None:
    """Size expressions of a variable's array and of its vector or matrix; None if there is no declaration."""
    match = re.search(
        rf"\b(?:array\s*\[{_SIZES}\]\s*)?[a-z_]+\s*(?:<[^;]*>\s*)?(?:\[{_SIZES}\]\s*)?\b{name}\b", text
    )
    if match is None:
        return None
    array_sizes, inner_sizes = (
        [size.strip() for size in re.split(r",(?![^(\[]*[)\]])", part)] if part else []
        for part in match.groups()
    )
    return array_sizes, inner_sizes


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
