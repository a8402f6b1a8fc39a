"""What the benchmarks of mixtures rest on: exact expectations, errors of groups, the best lambda."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from interpolation import COMPONENTS, Comparison, Errors, of_groups
from mixtures import CIGAR, TOYS, smoothed_minimum

from infmix import Sinusoids

LAMS = np.logspace(0, 1, 21)


def exact_draws(problem: str, n: int, rng: np.random.Generator) -> NDArray:
    if problem == "banana":
        x = rng.normal(0.0, np.sqrt(2.0), n)
        return np.column_stack((x, rng.normal(x**2 / 4, 0.5)))
    if problem == "cigar":
        return rng.multivariate_normal(np.zeros(2), CIGAR, n)
    modes = rng.choice([-1.5, 1.5], n, p=[0.4, 0.6])
    return rng.laplace(modes, 0.75)[:, None]


@pytest.mark.parametrize("problem", TOYS)
def test_expectations_by_the_characteristic_function(problem: str) -> None:
    rng = np.random.default_rng(3)
    x = exact_draws(problem, 100_000, rng)
    f = Sinusoids.random(10, x.shape[1], -1.0, rng, frequencies=5)
    values = f(x)
    se = values.std(axis=0) / np.sqrt(len(x))
    assert np.all(np.abs(TOYS[problem].expectation(f, f.amplitudes) - values.mean(axis=0)) < 4 * se)


@pytest.mark.parametrize("problem", TOYS)
def test_log_evidence(problem: str) -> None:
    """The density of a point from the characteristic function, by the inversion formula on a grid."""
    target = TOYS[problem].target()
    axis = np.linspace(-60.0, 60.0, 1201)
    grid = np.stack(np.meshgrid(*[axis] * target.dim, indexing="ij"), -1).reshape(-1, target.dim)
    point = np.full(target.dim, 0.3)
    step = (axis[1] - axis[0]) / (2.0 * np.pi)
    inverse = np.exp(-1j * grid @ point) * TOYS[problem].characteristic(grid)
    log_density = np.log(np.real(inverse).sum() * step**target.dim)
    expected = target.log_density(point) - TOYS[problem].log_evidence
    assert log_density == pytest.approx(expected, abs=0.02)


def test_the_variance_of_groups_is_a_tenth() -> None:
    values = np.random.default_rng(1).normal([0.0, 2.0], [1.0, 3.0], (20_003, 2))
    found = of_groups(values)
    np.testing.assert_allclose(found["mean"], [0.0, 2.0], atol=0.1)
    np.testing.assert_allclose(found["variance"], np.array([1.0, 9.0]) / COMPONENTS, rtol=0.15)


def test_the_smoothed_minimum() -> None:
    error = 1.0 + np.log(LAMS / 2.5) ** 2
    assert smoothed_minimum(LAMS, error, np.ones(21)) == pytest.approx(2.5, rel=0.02)
    noisy = error + 0.02 * np.random.default_rng(2).standard_normal(21)
    assert smoothed_minimum(LAMS, noisy, np.ones(21)) == pytest.approx(2.5, rel=0.15)
    assert smoothed_minimum(LAMS, 1.0 + LAMS, np.ones(21)) == 1.0
    noisy[5] = 0.0  # a wild value with a large standard error moves nothing
    sem = np.where(np.arange(21) == 5, 100.0, 1.0)
    assert smoothed_minimum(LAMS, noisy, sem) == pytest.approx(2.5, rel=0.15)


def test_the_best_lambda_falls_as_components_grow() -> None:
    scatter = np.random.default_rng(4).uniform(0.9, 1.1, 50)  # over the functions
    mixtures = {float(lam): Errors(scatter * (1.0 - 1.0 / lam) ** 2, scatter / lam) for lam in LAMS}
    found = Comparison(mixtures, mixtures[1.0], mixtures[float(LAMS[-1])], {})
    # (1 - 1 / lam)^2 + COMPONENTS / (T lam) is least at 1 / lam = 1 - 5 / T
    assert found.best(10) == pytest.approx(2.0, rel=0.07)
    assert found.best(30) == pytest.approx(1.2, rel=0.07)
    assert found.best(50) == pytest.approx(1.11, rel=0.07)
    np.testing.assert_allclose(mixtures[1.0].mse(2 * COMPONENTS), scatter / 2)
