"""Every program of stan_models against its density written again in NumPy, on every engine."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from closed_forms import ALL_TYPES, BENCHMARK_FORMS, CONSTRAINED, FORMS
from parity import differentiate, drops_constants, expected_log_density, parameters, relative_error

from dais_stan import resources
from dais_stan.target import Target

MODELS = resources.stan_models()

EVERY_PROGRAM = {
    **FORMS,
    **{name: form for name, (form, _) in BENCHMARK_FORMS.items()},
    **{f"constrained/{name}": form for name, form in CONSTRAINED.items()},
    "constrained/all_types": ALL_TYPES,
}
# The compiler takes fifteen seconds for each; the others are compiled in the slow set.
COMPILED = ["beta_binomial", "eight_schools_noncentered", "gaussian", "logistic_regression"]
SLOW = [name for name in EVERY_PROGRAM if name not in COMPILED]

on_every_engine = pytest.mark.parametrize(
    ("name", "engine"),
    [(name, "stanli") for name in EVERY_PROGRAM]
    + [(name, "auto") for name in COMPILED]
    + [pytest.param(name, "auto", marks=pytest.mark.slow) for name in SLOW],
)


def data_of(name: str) -> dict[str, Any]:
    if name in BENCHMARK_FORMS:
        return BENCHMARK_FORMS[name][1]
    path = MODELS / f"{name}.data.json"
    return json.loads(path.read_text()) if path.is_file() else {}


def open_target(name: str, engine: str, **options: Any) -> Target:
    return Target.from_stan(MODELS / f"{name}.stan", data=data_of(name), engine=engine, **options)


def some_points(target: Target, count: int = 3) -> np.ndarray:
    return np.random.default_rng(7).normal(0, 1, (count, target.dim))


@on_every_engine
def test_log_density_is_the_closed_form(name: str, engine: str) -> None:
    target, form, data = open_target(name, engine), EVERY_PROGRAM[name], data_of(name)
    z = some_points(target)
    expected = expected_log_density(target, form, data, z)
    actual = target.log_density(z)
    if drops_constants(target):
        actual, expected = np.diff(actual), np.diff(expected)
    assert relative_error(actual, expected) < 1e-9


@on_every_engine
def test_gradient_is_the_closed_forms(name: str, engine: str) -> None:
    target, form, data = open_target(name, engine), EVERY_PROGRAM[name], data_of(name)
    # A Jacobian at each of 8 points for each coordinate is slow: of many coordinates, every fifth.
    directions = np.eye(target.dim)[:: 5 if target.dim > 20 else 1]
    z = some_points(target, 1)[0]

    expected = differentiate(lambda points: expected_log_density(target, form, data, points), z, directions)
    gradient = target.log_density_gradient(z)[1]
    assert relative_error(directions @ gradient, expected) < 1e-9


def hvp_error(target: Target) -> float:
    """Against a difference of order 8 of the gradients, which the test above holds to the closed form."""
    z, v = some_points(target, 2)
    expected = differentiate(lambda points: target.log_density_gradient(points)[1], z, v[None])[0]
    return relative_error(target.hvp(z, v), expected)


@on_every_engine
def test_hvp_by_differences(name: str, engine: str) -> None:
    assert hvp_error(open_target(name, engine)) < 1e-6


@pytest.mark.parametrize(
    "name",
    ["eight_schools_noncentered"]
    + [
        pytest.param(name, marks=pytest.mark.slow) for name in COMPILED if name != "eight_schools_noncentered"
    ],
)
def test_hvp_by_autodiff(name: str) -> None:
    target = open_target(name, "auto", autodiff_hessian=True)
    assert target.has_hvp
    assert hvp_error(target) < 1e-9


@on_every_engine
def test_constrain_and_unconstrain_are_inverses(name: str, engine: str) -> None:
    target = open_target(name, engine)
    for z in some_points(target):
        values = parameters(target, z[None])[0]
        back = target.unconstrain(values)
        for variable, value in parameters(target, back[None])[0].items():
            np.testing.assert_allclose(value, values[variable], rtol=1e-9, atol=1e-12)
        if not EVERY_PROGRAM[name].sphere:  # a unit vector forgets the length of its z
            np.testing.assert_allclose(back, z, rtol=1e-8, atol=1e-8)


def log_integral(target: Target, half_width: float, points: int) -> float:
    """Log of the integral of the density over a cube around zero: trapezoids, all of smooth tails inside."""
    axis = np.linspace(-half_width, half_width, points)
    grid = np.stack(np.meshgrid(*[axis] * target.dim), -1).reshape(-1, target.dim)
    log_density = target.log_density(grid)
    cell = target.dim * np.log(axis[1] - axis[0])
    return float(np.logaddexp.reduce(log_density) + cell)


@pytest.mark.parametrize(
    ("name", "half_width", "points", "expected"),
    [
        ("beta_binomial", 40, 2001, -np.log(11)),
        ("conjugate_normal", 40, 2001, -8.765277),
        ("banana", 40, 2001, np.log(2 * np.pi) + np.log(0.5) / 2),
        ("constrained/lower", 40, 2001, 0),
        ("constrained/lower_upper", 30, 501, 0),
        ("constrained/unit_vector", 8, 80, 0),  # even: the density jumps at z = 0
        ("constrained/simplex", 30, 101, 0),
        ("constrained/ordered", 12, 121, 0),
    ],
)
def test_evidence_is_what_the_program_says(
    name: str, half_width: float, points: int, expected: float
) -> None:
    """These programs use `target +=` throughout, so that no engine drops a constant."""
    target = open_target(name, "stanli")
    assert not drops_constants(target)
    assert log_integral(target, half_width, points) == pytest.approx(expected, abs=1e-4)


def test_data_files_are_what_the_generators_write(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("generate", MODELS / "generate.py")
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    generate.write(tmp_path)
    written = {path.name: json.loads(path.read_text()) for path in tmp_path.glob("*.json")}
    assert written == {path.name: json.loads(path.read_text()) for path in MODELS.glob("*.data.json")}


def test_every_program_says_why_it_is_here() -> None:
    for path in MODELS.rglob("*.stan"):
        assert path.read_text().startswith("// Why it is here: "), path


def test_every_program_is_tested() -> None:
    """posteriordb has its own tests (test_posteriordb.py)."""
    programs = [*MODELS.glob("[!p]*.stan"), *MODELS.glob("constrained/*.stan")]
    assert {path.relative_to(MODELS).with_suffix("").as_posix() for path in programs} == set(EVERY_PROGRAM)
