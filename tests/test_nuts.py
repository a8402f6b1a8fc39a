"""NUTS: moments against closed forms, declared shapes, diagnostics, starts that fail, and what is saved."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import arviz
import numpy as np
import pytest

from dais_stan import arviz_io
from dais_stan.errors import TargetError
from dais_stan.nuts import NutsFit, sample
from dais_stan.target import Target

PROGRAM = Path(__file__).with_name("stan") / "gamma_normal.stan"
MEAN = {"x": 1.5, "y": 1.5, "z": 1.5}
SD = {"x": np.sqrt(0.75), "y": 1.0, "z": np.sqrt(2.0)}


@pytest.fixture(scope="module")
def target() -> Target:
    return Target.from_stan(PROGRAM, data={"shape": 3})


@pytest.fixture(scope="module")
def fit(target: Target) -> NutsFit:
    return sample(target, chains=4, seed=11, iter_sampling=2000, adapt_delta=0.98)


def test_moments(fit: NutsFit) -> None:
    for name, draws in fit.values.items():
        assert draws.shape == (4, 2000)
        assert draws.mean() == pytest.approx(MEAN[name], abs=4 * float(arviz.mcse(draws, method="mean")))
        assert draws.std() == pytest.approx(SD[name], abs=4 * float(arviz.mcse(draws, method="sd")))


def test_converged(fit: NutsFit) -> None:
    assert fit.converged and fit.warnings == []
    assert fit.verdict().startswith("No trouble found")
    assert set(fit.rhat) == set(fit.ess) == {"x", "y", "z"}
    assert max(fit.rhat.values()) < 1.01 and min(fit.ess.values()) > 400
    assert fit.divergences == 0 and np.all(fit.bfmi > 0.3)
    table = fit.summary(kind="diagnostics").astype(float)
    assert float(table.loc["x", "ess_bulk"]) == pytest.approx(fit.ess["x"], rel=0.01)


def test_sampler_statistics(fit: NutsFit) -> None:
    stats = fit.sample_stats
    names = ("lp", "acceptance_rate", "step_size", "tree_depth", "n_steps", "diverging", "energy")
    assert tuple(stats) == names and {value.shape for value in stats.values()} == {(4, 2000)}
    x, y = fit.values["x"], fit.values["y"]
    # Stan drops the constants of the density and adds log x for the transform of x.
    difference = stats["lp"] - (3 * np.log(x) - 2 * x - 2 * (y - x) ** 2)
    np.testing.assert_allclose(difference, difference[0, 0], atol=1e-10)
    assert fit.gradient_evaluations > stats["n_steps"].sum() > 8000  # warmup costs some too
    assert fit.seconds > 0


def test_draws(fit: NutsFit) -> None:
    everything = fit.draws()
    np.testing.assert_array_equal(everything["x"][2000:4000], fit.values["x"][1])
    some = fit.draws(500, seed=1)
    assert some["y"].shape == (500,)
    rows = np.searchsorted(np.sort(everything["x"]), some["x"])
    np.testing.assert_array_equal(np.sort(everything["x"])[rows], some["x"])
    np.testing.assert_array_equal(fit.draws(500, seed=1)["z"], some["z"])
    with pytest.raises(ValueError, match="n must be between 1 and 8000"):
        fit.draws(8001)


def test_same_seed_same_draws_on_any_number_of_threads(target: Target, fit: NutsFit) -> None:
    threads_before = os.environ.get("STAN_NUM_THREADS")
    one = sample(target, chains=2, seed=5, iter_sampling=50, parallel_chains=1)
    two = sample(target, chains=2, seed=5, iter_sampling=50, parallel_chains=2)
    other = sample(target, chains=2, seed=6, iter_sampling=50)
    np.testing.assert_array_equal(one.values["z"], two.values["z"])
    assert not np.array_equal(one.values["z"], other.values["z"])
    assert os.environ.get("STAN_NUM_THREADS") == threads_before
    assert 0 <= sample(target, chains=1, iter_sampling=5).seed < 2**32


def test_arviz_and_netcdf(fit: NutsFit, tmp_path: Path) -> None:
    tree = fit.to_arviz()
    assert tree["posterior"]["x"].shape == (4, 2000)
    assert tree["sample_stats"]["diverging"].shape == (4, 2000)
    path = tmp_path / "modèle é.nc"
    fit.save(path)
    groups = arviz_io.read(path)
    np.testing.assert_array_equal(groups["posterior"]["y"], fit.values["y"])
    assert groups["posterior"].attrs["verdict"] == fit.verdict()
    assert float(groups["observed_data"]["shape"]) == 3


def test_too_few_draws_are_not_trusted(target: Target) -> None:
    fit = sample(target, chains=2, seed=1, iter_warmup=100, iter_sampling=20)
    assert not fit.converged
    assert "bulk ESS" in fit.verdict() and "below 200" in fit.verdict()


def test_a_funnel_is_not_called_converged(shared: Path) -> None:
    target = Target.from_stan(shared / "cases" / "r09_funnel.stan", data={"D": 9}, engine="stanli")
    fit = sample(target, seed=1)
    assert not fit.converged
    assert fit.divergences > 0 and "transitions diverged" in fit.verdict()


def test_declared_shapes(shared: Path) -> None:
    target = Target.from_stan(shared / "cases" / "r04_shapes.stan", engine="stanli")
    fit = sample(target, chains=2, seed=1, iter_sampling=300)
    shapes = {name: value.shape[2:] for name, value in fit.values.items()}
    assert shapes == {"s": (), "M": (2, 3), "v": (2, 3), "empty": (4, 0), "one": (1,), "twice": (2, 3)}
    assert fit.values["M"][..., 0, 1].mean() == pytest.approx(12, abs=0.02)
    assert fit.values["v"][..., 1, 2].mean() == pytest.approx(203, abs=0.02)
    np.testing.assert_allclose(fit.values["twice"], 2 * fit.values["M"])
    assert "M[1,2]" in fit.rhat


def test_tuples_and_complex_numbers() -> None:
    centre = np.array([1 + 2j, 3 + 4j, 5 + 6j])
    data = {"pair": (2, [3.0, 4.0]), "list": [(5.0, [7.0]), (8.0, [10.0])], "centre": centre}
    target = Target.from_stan(PROGRAM.with_name("tuples.stan"), data=data)
    fit = sample(target, chains=2, seed=1, iter_sampling=2000)
    means = {
        "t.1": 2,
        "t.2": [3, 4],
        "at.1": [5, 8],
        "at.2": [[[7], [7]], [[10], [10]]],
        "z.real": centre.real,
        "z.imag": centre.imag,
    }
    assert list(fit.values) == list(means)
    for name, mean in means.items():
        assert fit.values[name].mean(axis=(0, 1)) == pytest.approx(np.array(mean), abs=0.12)


@pytest.mark.parametrize("size", [20, 40])
def test_chains_start_nearer_the_origin_if_they_must(
    shared: Path, size: int, caplog: pytest.LogCaptureFixture
) -> None:
    target = Target.from_stan(shared / "cases" / "r06_lkj.stan", data={"K": size}, engine="stanli")
    with caplog.at_level(logging.WARNING, logger="dais_stan"):
        fit = sample(target, chains=2, seed=1, iter_warmup=50, iter_sampling=20, max_treedepth=5)
    assert size == 20 or fit.init_radius < 2  # some seeds find a start for 20 within 2
    assert fit.init_radius == 2 or f"the chains started within {fit.init_radius:g}" in caplog.text
    rows = np.linalg.norm(fit.values["L"], axis=-1)
    np.testing.assert_allclose(rows, 1, rtol=1e-9)


def test_no_finite_start(shared: Path) -> None:
    target = Target.from_stan(shared / "cases" / "r07b_support.stan", engine="stanli")
    with pytest.raises(TargetError, match=r"No finite point .* declare it with bounds"):
        sample(target, seed=1)
    with pytest.raises(TargetError, match="at the given inits"):
        sample(target, seed=1, inits={"x": 1.0})


def test_a_bad_argument(target: Target) -> None:
    with pytest.raises(ValueError, match="chains and iter_sampling"):
        sample(target, chains=0)
    with pytest.raises(ValueError, match="save_warmup cannot be given"):
        sample(target, save_warmup=True)
    with pytest.raises(ValueError, match="adapt_delta"):
        sample(target, adapt_delta=2.0)
    with pytest.raises(ValueError, match="must be a Stan program"):
        sample(Target.from_functions(lambda z: (-(z**2).sum(1) / 2, -z), 1))


def test_options_reach_the_sampler(target: Target) -> None:
    fit = sample(target, chains=2, seed=1, iter_sampling=90, thin=3, max_treedepth=1, inits={"x": 1, "y": 1})
    assert fit.values["x"].shape == (2, 30)
    assert fit.sample_stats["tree_depth"].max() == 1
    assert fit.init_radius is None
