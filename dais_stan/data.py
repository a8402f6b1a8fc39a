"""The data of a Stan program: read from what the user has, checked against the declarations, made JSON."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dais_stan.engines.program import Declaration
from dais_stan.errors import TargetError

Data = Mapping[str, Any] | str | PathLike[str] | None

# The two usual complaints of a model's constructor.
_WRONG_SIZE = re.compile(
    r"mismatch in (?:number )?dimensions? declared and found in context.*?variable name=(?P<name>[^;]+);"
    r".*?dims declared=\((?P<expected>[^)]*)\); dims found=\((?P<found>[^)]*)\)"
)
_OUT_OF_BOUNDS = re.compile(
    r"(?P<name>\w[\w.]*(?:\[[^\]]*\])*) is (?P<found>\S+), but must be (?P<expected>.+)"
)
_INT_LIMIT = 2**31  # Stan's integers have 32 bits
_INFINITIES = {
    sign + word: float(sign + word)
    for sign in ("", "+", "-")
    for word in ("Inf", "Infinity", "inf", "infinity")
}


def read_data(data: Data, inputs: Mapping[str, Declaration]) -> dict[str, Any]:
    """Check data against a program's declarations.

    Args:
        data: a mapping (dict, xarray.Dataset, pandas.DataFrame) from names to numbers, numpy arrays, pandas
            or xarray objects, nested lists, tuples for Stan's tuples; or the path of a JSON file; or JSON
            text; or None when the program declares no data.
        inputs: the declarations of the data block.

    Returns:
        name -> int64, float64 or complex128 array; a tuple of them for a Stan tuple (a list of such tuples
        for an array of tuples). Only declared variables, in declared order.

    Raises:
        TargetError: unreadable data, or a variable that is missing or not as declared.
    """
    found = _as_mapping(data)
    values = {}
    for name, declaration in inputs.items():
        if name not in found:
            raise TargetError(
                f'Data variable "{name}": expected {_expected(declaration)}, but the data does not have it'
                + (f" (it has {', '.join(map(str, found))})." if found else " (it is empty).")
            )
        values[name] = _check(name, declaration, found[name])
    extra = [str(name) for name in found if name not in inputs]
    if extra:
        warnings.warn(
            f"Ignored variables of the data that the program does not declare: {', '.join(extra)}.",
            UserWarning,
            stacklevel=4,  # the caller of Target.from_stan
        )
    return values


def to_json(values: Mapping[str, Any]) -> str:
    """JSON, in CmdStan's format, of values as :func:`read_data` returns them."""
    return json.dumps({name: _plain(value) for name, value in values.items()}, allow_nan=False)


def explain_refusal(message: str) -> str:
    """Stan's message about data that it refuses, as one sentence that names the variable."""
    text = re.sub(r"\s*\(in '.*?', line \d+.*?\)", "", message, flags=re.DOTALL)
    text = " ".join(text.split()).rstrip(".")
    if match := _WRONG_SIZE.search(text):
        return (
            f'Data variable "{match["name"]}": expected shape ({match["expected"]}), '
            f"found shape ({match['found']})."
        )
    if match := _OUT_OF_BOUNDS.search(text):
        expected = re.sub(r"\.0+$", "", match["expected"])  # Stan writes a bound of 10 as 10.000000
        return f'Data variable "{match["name"]}": expected {expected}, found {match["found"]}.'
    return f"The program refuses the data: {text}."


def _as_mapping(data: Data) -> Mapping[str, Any]:
    if data is None:
        return {}
    if isinstance(data, str | PathLike):
        text = fspath(data)
        where = "the JSON text" if text.lstrip().startswith(("{", "[")) else text
        if where is text:
            text = _read_file(Path(text).expanduser())
        return _parse(text, where)
    if hasattr(data, "items"):  # a mapping, or a pandas object
        return dict(data.items())
    raise ValueError(
        f"data must be a dict, the path of a JSON file, or JSON text, not {type(data).__name__}."
    )


def _read_file(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")  # Windows writes a mark first
    except FileNotFoundError as error:
        raise TargetError(f"There is no data file {path}.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise TargetError(f"The data file {path} cannot be read: {error}.") from error


def _parse(text: str, where: str) -> Mapping[str, Any]:
    try:
        parsed = json.loads(text, object_pairs_hook=_without_repeats)
    except (ValueError, RecursionError) as error:  # also of a number of thousands of digits
        raise TargetError(f"Data: expected JSON, but {where} is not valid: {error}.") from error
    if not isinstance(parsed, dict):
        raise TargetError(
            f"Data: expected a JSON object of variables, but {where} holds a {type(parsed).__name__}."
        )
    return {name: _with_infinities(value) for name, value in parsed.items()}


def _with_infinities(value: Any) -> Any:
    """CmdStan's JSON writes infinity as a text too."""
    if isinstance(value, list):
        return [_with_infinities(element) for element in value]
    if isinstance(value, dict):
        return {name: _with_infinities(element) for name, element in value.items()}
    return _INFINITIES.get(value, value) if isinstance(value, str) else value


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise TargetError(f'Data variable "{name}": expected one value, but the data gives it twice.')
        found[name] = value
    return found


def _expected(declaration: Declaration) -> str:
    kind = declaration.type if isinstance(declaration.type, str) else "tuple"
    if declaration.n_dims == 0:
        return f"one {kind}"
    return f"{kind} values in {declaration.n_dims} dimension{'s' if declaration.n_dims > 1 else ''}"


def _check(name: str, declaration: Declaration, value: Any) -> Any:
    """The value as declared, or TargetError."""
    if isinstance(declaration.type, str):
        return _check_array(name, declaration, value)
    if declaration.n_dims > 0:
        inner = Declaration(declaration.type, declaration.n_dims - 1)
        if not isinstance(value, list | tuple | np.ndarray):
            raise _mismatch(name, declaration, _found(value))
        return [_check(f"{name}[{i + 1}]", inner, element) for i, element in enumerate(value)]
    members = list(value.values()) if isinstance(value, Mapping) else value
    if not isinstance(members, list | tuple) or len(members) != len(declaration.type):
        raise TargetError(
            f'Data variable "{name}": expected a tuple of {len(declaration.type)}, found {_found(value)}.'
        )
    return tuple(
        _check(f"{name}.{i + 1}", inner, member)
        for i, (inner, member) in enumerate(zip(declaration.type, members, strict=True))
    )


def _check_array(name: str, declaration: Declaration, value: Any) -> NDArray[Any]:
    array = _numeric(name, declaration, value)
    if declaration.type == "complex" and array.dtype.kind != "c":
        array = _pairs_to_complex(array, declaration.n_dims)
    # JSON cannot say more than [] of an array whose first size is 0, so an empty one may lack dimensions.
    if array.ndim != declaration.n_dims and (array.size > 0 or array.ndim > declaration.n_dims):
        raise _mismatch(name, declaration, _found_shape(array))
    if declaration.n_dims == 0 and array.size != 1:
        raise _mismatch(name, declaration, _found_shape(array))
    # Infinity is a real number to Stan, such as an open bound given as data; NaN and missing values are not.
    bad = np.isnan(array) if declaration.type == "real" else ~np.isfinite(array)
    if bad.any():
        raise _mismatch(name, declaration, _element(array, bad))
    if declaration.type != "int":
        return array.astype(np.complex128 if declaration.type == "complex" else np.float64)
    if array.dtype.kind == "f" and (bad := array != np.floor(array)).any():
        raise _mismatch(name, declaration, _element(array, bad))
    if (bad := (array >= _INT_LIMIT) | (array < -_INT_LIMIT)).any():
        raise _mismatch(name, declaration, _element(array, bad) + ", which does not fit in 32 bits")
    return array.astype(np.int64)


def _numeric(name: str, declaration: Declaration, value: Any) -> NDArray[Any]:
    """The value as an array of bool, int, float or complex numbers."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise _mismatch(name, declaration, "masked (missing) values")
    try:
        array = np.asarray(value)
        if array.dtype.kind == "O":  # nullable pandas columns, Python integers of any size, None
            if any(element is None for element in array.flat):
                raise _mismatch(name, declaration, "a missing value (None)")
            if text := [element for element in array.flat if isinstance(element, str | bytes)]:
                raise _mismatch(name, declaration, _found(text[0]))  # astype would read "1" as 1
            array = array.astype(np.float64)
    except OverflowError as error:
        raise _mismatch(name, declaration, "an integer too large for a double") from error
    except (TypeError, ValueError) as error:
        raise _mismatch(name, declaration, f"{_found(value)} that is no array of numbers") from error
    allowed = "biufc" if declaration.type == "complex" else "biuf"
    if array.dtype.kind not in allowed and array.size > 0:
        raise _mismatch(name, declaration, _found(value))
    return array


def _pairs_to_complex(array: NDArray[Any], n_dims: int) -> NDArray[Any]:
    """JSON writes a complex number as the pair [real, imaginary]."""
    if array.ndim == n_dims + 1 and array.shape[-1] == 2:
        return array[..., 0] + 1j * array[..., 1]
    return array


def _mismatch(name: str, declaration: Declaration, found: str) -> TargetError:
    return TargetError(f'Data variable "{name}": expected {_expected(declaration)}, found {found}.')


def _found(value: Any) -> str:
    text = " ".join(repr(value).split())
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:57] + '...'}"


def _found_shape(array: NDArray[Any]) -> str:
    return f"one number ({array})" if array.ndim == 0 else f"shape {array.shape}"


def _element(array: NDArray[Any], bad: NDArray[np.bool_]) -> str:
    index = tuple(int(i) for i in np.argwhere(bad)[0])
    place = f" at [{', '.join(str(i + 1) for i in index)}]" if index else ""
    return f"{array[index]}{place}"


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):  # a Stan tuple
        return {str(i + 1): _plain(member) for i, member in enumerate(value)}
    if isinstance(value, list):
        return [_plain(element) for element in value]
    if np.iscomplexobj(value):
        return np.stack([value.real, value.imag], axis=-1).tolist()
    plain = value.tolist()
    return plain if np.isfinite(value).all() else _spelled(plain)


def _spelled(plain: Any) -> Any:
    """Infinity as the text that Stan's reader of JSON takes for it; JSON has no such number."""
    if isinstance(plain, list):
        return [_spelled(element) for element in plain]
    return plain if np.isfinite(plain) else "Infinity" if plain > 0 else "-Infinity"
