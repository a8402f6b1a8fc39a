"""Data: what is accepted, what Stan gets of it, and the message for everything else."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from dais_stan.data import explain_refusal, read_data, to_json
from dais_stan.engines.program import Declaration
from dais_stan.errors import TargetError
from dais_stan.target import Target

PROGRAMS = Path(__file__).with_name("stan")
REAL, INT = Declaration("real", 0), Declaration("int", 0)
VECTOR, MATRIX, INTS = Declaration("real", 1), Declaration("real", 2), Declaration("int", 1)
COMPLEX = Declaration("complex", 0)
PAIR = Declaration((INT, VECTOR), 0)
BINOMIAL = {"n": INT, "y": INT}


def as_json(value: Any, declaration: Declaration) -> Any:
    """What Stan gets for a value."""
    return json.loads(to_json(read_data({"x": value}, {"x": declaration})))["x"]


def refusal(value: Any, declaration: Declaration) -> str:
    with pytest.raises(TargetError) as caught:
        read_data({"x": value}, {"x": declaration})
    return str(caught.value)


# What is accepted ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "declaration", "expected"),
    [
        (3, INT, 3),
        (10.0, INT, 10),
        (True, INT, 1),
        (np.bool_(True), INT, 1),
        (np.array(4, dtype=np.uint8), INT, 4),
        (2**31 - 1, INT, 2**31 - 1),
        (np.float64(7), INT, 7),
        (3, REAL, 3.0),
        (np.float32(0.5), REAL, 0.5),
        ([1, 0, 1], INTS, [1, 0, 1]),
        ([True, False], INTS, [1, 0]),
        ((1.5, 2), VECTOR, [1.5, 2.0]),
        (range(3), INTS, [0, 1, 2]),
        (pd.Series([1.0, 2.0], index=[5, 6]), VECTOR, [1.0, 2.0]),
        (pd.Series([1, 2], dtype="Int64"), INTS, [1, 2]),
        (pd.DataFrame({"a": [1, 2], "b": [3.5, 4.5]}), MATRIX, [[1.0, 3.5], [2.0, 4.5]]),
        (xr.DataArray([[1.0, 2.0]], dims=("row", "column")), MATRIX, [[1.0, 2.0]]),
        (np.arange(6.0).reshape(2, 3).T, MATRIX, [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]),
        (np.empty((0, 1)), MATRIX, []),
        (np.empty((3, 0)), MATRIX, [[], [], []]),
        ([], MATRIX, []),
        ([], INTS, []),
        (np.ma.array([1.0, 2.0], mask=False), VECTOR, [1.0, 2.0]),
        (1 + 2j, COMPLEX, [1.0, 2.0]),
        ([1, 2], COMPLEX, [1.0, 2.0]),
        (3.0, COMPLEX, [3.0, 0.0]),
        ((2, [3.0, 4.0]), PAIR, {"1": 2, "2": [3.0, 4.0]}),
        ({"1": 2, "2": [3.0, 4.0]}, PAIR, {"1": 2, "2": [3.0, 4.0]}),
        ([(1, [2.0]), (3, [4.0])], Declaration(PAIR.type, 1), [{"1": 1, "2": [2.0]}, {"1": 3, "2": [4.0]}]),
    ],
)
def test_accepted(value: Any, declaration: Declaration, expected: Any) -> None:
    found = as_json(value, declaration)
    assert found == expected
    assert repr(found) == repr(expected)  # 1 and 1.0 are equal, but not the same to Stan


def test_numbers_survive_to_the_last_bit() -> None:
    x = np.random.default_rng(1).normal(size=100) * 10.0 ** np.arange(-50, 50)
    assert as_json(x, VECTOR) == x.tolist()


def test_values_come_back_typed_and_in_declared_order() -> None:
    values = read_data({"y": 2.0, "n": 10}, BINOMIAL)
    assert list(values) == ["n", "y"]
    assert (values["y"].dtype, values["y"].shape) == (np.int64, ())


@pytest.mark.parametrize("wrap", [str, Path])
def test_files(tmp_path: Path, wrap: type) -> None:
    file = tmp_path / "some dätä.json"
    file.write_text('{"n": 10, "y": 2}', encoding="utf-8")
    assert to_json(read_data(wrap(file), BINOMIAL)) == '{"n": 10, "y": 2}'


@pytest.mark.parametrize(
    "data",
    [
        ' {"n": 10, "y": 2}',
        {"n": 10, "y": 2},
        xr.Dataset({"n": 10, "y": 2}),
        pd.Series({"n": 10, "y": 2}),
    ],
)
def test_forms_of_data(data: Any) -> None:
    assert to_json(read_data(data, BINOMIAL)) == '{"n": 10, "y": 2}'


def test_a_data_frame_is_a_mapping_of_columns() -> None:
    data = pd.DataFrame({"x": [1.5, 2.5], "k": [0, 1]})
    assert to_json(read_data(data, {"x": VECTOR, "k": INTS})) == '{"x": [1.5, 2.5], "k": [0, 1]}'


def test_no_data_for_a_program_that_needs_none() -> None:
    assert read_data(None, {}) == {}


def test_extra_variables_are_warned_of() -> None:
    with pytest.warns(UserWarning, match="does not declare: who, what") as caught:
        Target.from_stan(
            PROGRAMS / "skewed_correlated.stan",
            data={"shape": 1, "rate": 1, "who": 1, "what": "text"},
            engine="stanli",
        )
    assert caught[0].filename == __file__


@pytest.mark.parametrize("engine", ["stanli", "auto"])
def test_infinity_is_a_real_number(engine: str) -> None:
    """An open bound given as data: the density is that of the half-line, from every spelling."""
    code = (
        "data { vector[2] b; } parameters { real<lower=b[1], upper=b[2]> x; } model { target += -square(x); }"
    )
    datas = [{"b": [0.0, np.inf]}, '{"b": [0, "Infinity"]}', '{"b": [0, "+Inf"]}', '{"b": [0, Infinity]}']
    expected = [-np.exp(2 * z) + z for z in (-1.0, 0.5)]
    for data in datas:
        target = Target.from_stan(stan_code=code, data=data, engine=engine)
        np.testing.assert_allclose(target.log_density(np.array([[-1.0], [0.5]])), expected, rtol=1e-12)
    assert read_data('{"x": "-inf"}', {"x": REAL})["x"] == -np.inf


# What is refused ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "declaration", "message"),
    [
        (np.nan, INT, 'Data variable "x": expected one int, found nan.'),
        (2.5, INT, 'Data variable "x": expected one int, found 2.5.'),
        (2**31, INT, 'Data variable "x": expected one int, found 2147483648, which does not fit in 32 bits.'),
        (10**30, INT, "which does not fit in 32 bits"),
        (10**400, INT, 'Data variable "x": expected one int, found an integer too large for a double.'),
        ([1.0, 10**5000], VECTOR, "found an integer too large for a double."),
        ([1, 2.5, 3], INTS, 'Data variable "x": expected int values in 1 dimension, found 2.5 at [2].'),
        ([1.0, np.nan], VECTOR, 'Data variable "x": expected real values in 1 dimension, found nan at [2].'),
        ([1, np.inf], INTS, "found inf at [2]."),
        ([[1, 2], [3, np.nan]], MATRIX, "expected real values in 2 dimensions, found nan at [2, 2]."),
        ([1.0, None], VECTOR, "found a missing value (None)."),
        (pd.Series([1, None], dtype="Int64"), INTS, "found nan at [2]."),
        (np.ma.array([1.0, 2.0], mask=[0, 1]), VECTOR, "found masked (missing) values."),
        ("two", INT, "expected one int, found str 'two'."),
        (["a", "b"], VECTOR, "found list ['a', 'b']."),
        (pd.Series(["1", 2], dtype=object), VECTOR, "expected real values in 1 dimension, found str '1'."),
        ([[1, 2], [3]], MATRIX, "found list [[1, 2], [3]] that is no array of numbers."),
        (3, VECTOR, "expected real values in 1 dimension, found one number (3)."),
        ([3], REAL, "expected one real, found shape (1,)."),
        ([], REAL, "expected one real, found shape (0,)."),
        ([[1, 2]], VECTOR, "found shape (1, 2)."),
        (1 + 2j, REAL, "expected one real, found complex (1+2j)."),
        (pd.Series(pd.to_datetime(["2020-01-01"])), VECTOR, "expected real values in 1 dimension"),
        ((1, [2.0], 3), PAIR, 'Data variable "x": expected a tuple of 2, found tuple (1, [2.0], 3).'),
        (7, PAIR, 'Data variable "x": expected a tuple of 2, found int 7.'),
        ((1.5, [2.0]), PAIR, 'Data variable "x.1": expected one int, found 1.5.'),
        ([(1, [2.0]), (2, 3)], Declaration(PAIR.type, 1), 'Data variable "x[2].2": expected real values'),
    ],
)
def test_refused(value: Any, declaration: Declaration, message: str) -> None:
    text = refusal(value, declaration)
    assert message in text
    assert "\n" not in text
    assert len(text) < 200


def test_a_missing_variable_is_named_with_what_there_is() -> None:
    with pytest.raises(TargetError, match=r'variable "y": expected one int, but .* \(it has n, z\)\.'):
        read_data({"n": 1, "z": 2}, BINOMIAL)
    with pytest.raises(TargetError, match=r'variable "n": expected one int, but .* \(it is empty\)\.'):
        read_data(None, BINOMIAL)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ('{"n": 10,', "expected JSON, but the JSON text is not valid: .*line 1 column"),
        ("[1, 2]", "expected a JSON object of variables, but the JSON text holds a list"),
        ("no such file.json", r"There is no data file no such file\.json\."),
        ('{"n": NaN, "y": 2}', 'variable "n": expected one int, found nan'),
        ('{"n": "NaN", "y": 2}', 'variable "n": expected one int, found str'),
        ('{"n": 1, "n": 2, "y": 2}', 'variable "n": expected one value, but the data gives it twice'),
        (f'{{"n": 1{"0" * 5000}, "y": 2}}', "expected JSON, but the JSON text is not valid: Exceeds"),
        (f'{{"n": {"[" * 100_000}', "expected JSON, but the JSON text is not valid: "),
    ],
)
def test_unreadable_data(data: str, message: str) -> None:
    with pytest.raises(TargetError, match=message):
        read_data(data, BINOMIAL)


def test_a_byte_order_mark_is_no_part_of_the_data(tmp_path: Path) -> None:
    file = tmp_path / "data.json"
    file.write_text('{"n": 10, "y": 2}', encoding="utf-8-sig")
    assert to_json(read_data(file, BINOMIAL)) == '{"n": 10, "y": 2}'


def test_unreadable_files(tmp_path: Path) -> None:
    file = tmp_path / "data.json"
    file.write_text("n = 10")
    with pytest.raises(TargetError, match=r"expected JSON, but .*data\.json is not valid"):
        read_data(file, BINOMIAL)
    with pytest.raises(TargetError, match="cannot be read"):
        read_data(tmp_path, BINOMIAL)


def test_something_else_is_a_bad_argument() -> None:
    with pytest.raises(
        ValueError, match="data must be a dict, the path of a JSON file, or JSON text, not int"
    ):
        read_data(3, BINOMIAL)  # type: ignore[arg-type]


# What the program itself refuses ------------------------------------------------------------------------

GOOD = {"N": 2, "y": [1, 2], "x": [0.5, 1.5], "X": [[1, 2], [3, 4]], "scale": 1}


def open_bounded(engine: str, **changes: Any) -> Target:
    return Target.from_stan(PROGRAMS / "bounded_data.stan", data={**GOOD, **changes}, engine=engine)


@pytest.mark.parametrize("engine", ["stanli", "auto"])
@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"y": [1, 12]}, ['Data variable "y', "expected less than or equal to 10, found 12."]),
        ({"y": [-1, 2]}, ['Data variable "y', "expected greater than or equal to 0, found -1."]),
        ({"scale": -0.5}, ['Data variable "scale": expected greater than or equal to 0, found -0.5.']),
        ({"x": [1, 2, 3]}, ['Data variable "x": expected shape (2), found shape (3).']),
        ({"X": [[1, 2, 3], [4, 5, 6]]}, ['Data variable "X": expected shape (2,2), found shape (2,3).']),
    ],
)
def test_data_that_breaks_a_declaration(changes: Mapping[str, Any], parts: list[str], engine: str) -> None:
    with pytest.raises(TargetError) as caught:
        open_bounded(engine, **changes)
    text = str(caught.value)
    assert all(part in text for part in parts), text
    assert "\n" not in text


@pytest.mark.parametrize("engine", ["stanli", "auto"])
def test_sizes_of_zero(engine: str) -> None:
    target = open_bounded(engine, N=0, y=[], x=np.empty(0), X=np.empty((0, 2)))
    assert target.log_density_gradient([0.5])[1] == pytest.approx(-0.5)
    assert target.data is not None
    assert target.data["X"].shape == (0, 2)


def test_a_negative_size() -> None:
    message = 'Data variable "N": expected greater than or equal to 0, found -1.'
    with pytest.raises(TargetError, match=f"^{re.escape(message)}$"):
        open_bounded("auto", N=-1)


def test_another_refusal_keeps_stans_words() -> None:
    text = explain_refusal("S is not symmetric. S[1,2] = 1, but S[2,1] = 2 (in 'm.stan', line 3, column 2)")
    assert text == "The program refuses the data: S is not symmetric. S[1,2] = 1, but S[2,1] = 2."
