"""What benchmarks rest on: closed forms are the Stan programs', data are split as published, tables parse."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from dais_stan.resources import stan_models
from dais_stan.target import Target

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from analytic import bimodal_target, gp_data, gp_posterior, gp_target
from published import published
from uci import folder, torch_permutation, training_data


def some_points(dim: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    return rng.normal(0.4, 0.5, (5, dim)), rng.standard_normal((5, dim))


def assert_same(closed: Target, program: Target, shift: float = 0.0) -> None:
    z, v = some_points(closed.dim)
    value, gradient = closed.log_density_gradient(z)
    expected, expected_gradient = program.log_density_gradient(z + shift)
    np.testing.assert_allclose(value, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-8, atol=1e-8)
    product, expected_product = closed.hvp(z, v), program.hvp(z + shift, v)
    scale = np.abs(expected_product).max()
    np.testing.assert_allclose(product, expected_product, rtol=1e-5, atol=1e-6 * scale)


@pytest.mark.parametrize("kernel", ["RBF_1", "RBF_2"])
def test_the_gaussian_process_is_the_stan_programs(kernel: str) -> None:
    program = stan_models() / "gaussian_process.stan"
    target = Target.from_stan(program, data=gp_data(kernel, 10), engine="stanli")
    assert_same(gp_target(kernel, 10), target)


@pytest.mark.parametrize("dim", [1, 3])
def test_the_bimodal_density_is_the_stan_programs(dim: int) -> None:
    target = Target.from_stan(stan_models() / "bimodal.stan", data={"D": dim}, engine="stanli")
    assert_same(bimodal_target(dim), target)
    assert_same(bimodal_target(dim, 0.5), target, 0.5)


@pytest.mark.parametrize(
    ("kernel", "d", "mean_field_error", "mean_sd"),
    [
        ("RBF_1", 10, 5.159e-2, 0.06664),
        ("RBF_1", 25, 4.027e-2, 0.04537),
        ("RBF_2", 10, 1.400e-2, 0.08796),
        ("RBF_2", 25, 4.875e-2, 0.07106),
    ],
)
def test_the_data_are_the_published_ones(
    kernel: str, d: int, mean_field_error: float, mean_sd: float
) -> None:
    """Mean-field VI's error of the sd in closed form is table 3's IWVI with N = 1."""
    _, covariance, _ = gp_posterior(gp_data(kernel, d))
    sd = np.sqrt(np.diag(covariance))
    error = np.abs(1 / np.sqrt(np.diag(np.linalg.inv(covariance))) - sd).mean()
    assert error == pytest.approx(mean_field_error, rel=2e-3)
    assert sd.mean() == pytest.approx(mean_sd, rel=1e-3)
    assert error == pytest.approx(published()[kernel, d, "std", "IWVI", 1][0], rel=0.01)


def test_pytorchs_permutation() -> None:
    """The grid points of the Gaussian-process data are a permutation by the same generator, further on."""
    order = torch_permutation(75)
    assert sorted(order) == list(range(75))
    bits = np.random.MT19937()
    bits._legacy_seeding(0)
    bits.random_raw(91)  # what the path of 75 normal numbers took
    grid = np.arange(75)
    for i, draw in enumerate(bits.random_raw(74)):
        j = i + int(draw) % (75 - i)
        grid[[i, j]] = grid[[j, i]]
    np.testing.assert_allclose(gp_data("RBF_1", 25)["t"], 10 * grid[:25] / 74)


def test_training_rows_are_four_fifths() -> None:
    if not (folder() / "sonar.csv").exists():
        pytest.skip(f"needs the UCI data in {folder()}")
    data = training_data("sonar")
    assert (data["N"], data["K"], data["X"].shape) == (166, 60, (166, 60))
    assert 0.3 < data["y"].mean() < 0.7
    with pytest.raises(ValueError, match="data set must be one of"):
        training_data("loans")


def test_published_numbers_are_all_there() -> None:
    assert len(published()) > 750
    assert published()["sonar", 61, "std", "DAIS_0(16)", 16] == (4.27e-2, 0.13e-2)
    assert published()["RBF_1", 10, "std", "DAIS_0(16)", 16][0] == 4.54e-3
    assert published()["RBF_2", 25, "std", "MSC_8c", 16][0] == 4.07e-2
