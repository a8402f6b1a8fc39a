"""Fits of flows: what a Gaussian cannot follow, every method, files, seeds, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from densities import Normal

import dais_stan as ds
from dais_stan.methods import make_method
from dais_stan.resources import stan_models

BANANA_LOG_Z = np.log(2 * np.pi) + 0.5 * np.log(0.5)
QUICK = ds.Schedule(learning_rates=(0.03,), max_iterations=200)
SMALL = {"family": "o-sylvester", "flows": 2, "columns": 1}
EACH = {
    "flow": SMALL,
    "iwvi": {"particles": 4, **SMALL},
    "msc": {"particles": 4, "chains": 2, **SMALL},
    "dais0": {"particles": 2, "transitions": 2, "warm_start": False, **SMALL},
    "dais": {"particles": 2, "transitions": 2, "warm_start": False, **SMALL},
}


pytestmark = pytest.mark.usefixtures("quiet")


@pytest.fixture(scope="module")
def banana():
    """x ~ N(0, 2), y ~ N(x^2 / 4, 1/4), unnormalised."""

    def log_density_gradient(z):
        x, y = z.T
        bend = y - 0.25 * x * x
        return -2 * bend**2 - 0.25 * x * x, np.stack((2 * x * bend - 0.5 * x, -4 * bend), axis=1)

    return ds.Target.from_functions(log_density_gradient, 2)


@pytest.fixture(scope="module")
def skewed():
    code = "parameters { real<lower=0> g; real x; } model { g ~ gamma(3, 2); x ~ normal(log(g), 0.5); }"
    return ds.Target.from_stan(stan_code=code, engine="stanli")


def test_flows_bend_where_a_gaussian_cannot(banana):
    """The banana's gap, log Z - ELBO: Sylvester below planar with as many flows, and both far below VI's."""
    kinds = ("o-sylvester", "t-sylvester", "planar")
    fits = {kind: ds.fit(banana, "flow", seed=1, family=kind, flows=8) for kind in kinds}
    gap = {kind: BANANA_LOG_Z - fit.elbo for kind, fit in fits.items()}
    mean_field = BANANA_LOG_Z - ds.fit(banana, "meanfield", seed=1).elbo
    assert mean_field > 0.25
    for kind in ("o-sylvester", "t-sylvester"):
        assert gap[kind] + 3 * fits[kind].elbo_se < 0.25 * mean_field
        assert gap[kind] < gap["planar"]
        fit = fits[kind]
        assert abs(fit.log_evidence - BANANA_LOG_Z) < 4 * fit.log_evidence_se
        np.testing.assert_allclose(fit.mean, [0.0, 0.5], atol=0.1)
        np.testing.assert_allclose(fit.sd, [np.sqrt(2), np.sqrt(0.75)], rtol=0.16)  # mean-field: 37 % off
        np.testing.assert_allclose(
            fit.unconstrained_draws(20_000, seed=3, weighted=False).std(axis=0), fit.sd, rtol=0.05
        )


@pytest.mark.parametrize(("family", "options"), [("o-sylvester", {"columns": 8}), ("t-sylvester", {})])
def test_flows_learn_the_correlations_that_their_base_lacks(family, options):
    """A Gaussian with correlation 0.9 between neighbours, from N(0, I): mean-field is 2.6 nats off."""
    sd = np.linspace(0.5, 2.0, 8)
    correlation = 0.9 ** np.abs(np.subtract.outer(np.arange(8), np.arange(8)))
    density = Normal(np.linspace(-1, 1, 8), correlation * np.outer(sd, sd), log_z=0.3)
    target = ds.Target.from_functions(density.log_density_gradient, 8)
    assert 0.3 - ds.fit(target, "meanfield", seed=1).elbo > 2.5
    fit = ds.fit(target, "flow", seed=1, start="zero", family=family, flows=8, **options)
    assert 0.3 - fit.elbo + 2 * fit.elbo_se < 0.05
    np.testing.assert_allclose(fit.sd, sd, rtol=0.05)


def test_score_climbing_with_a_flow_has_the_posteriors_spread(banana):
    schedule = ds.Schedule(learning_rates=(0.03, 0.01), max_iterations=1500)
    options = {"family": "t-sylvester", "flows": 4, "particles": 16, "chains": 8, "schedule": schedule}
    fit = ds.fit(banana, "msc", seed=1, **options)
    np.testing.assert_allclose(fit.sd, [np.sqrt(2), np.sqrt(0.75)], rtol=0.15)
    assert BANANA_LOG_Z - fit.elbo < 0.15


@pytest.mark.parametrize("method", EACH)
def test_a_fit_survives_its_file(skewed, tmp_path, method):
    fit = ds.fit(skewed, method, seed=1, schedule=QUICK, importance_draws=2000, **EACH[method])
    assert abs(fit.log_evidence) < 10 * fit.log_evidence_se or not skewed.normalized
    fit.save(tmp_path / "fit.nc", n=100)
    again = ds.load(tmp_path / "fit.nc")
    assert type(again) is type(fit) and again.family.options == fit.family.options
    np.testing.assert_array_equal(again.params, fit.params)
    np.testing.assert_array_equal(again.mean, fit.mean)
    for weighted in (True, False):
        expected = fit.draws(20, seed=9, weighted=weighted)["g"]
        np.testing.assert_array_equal(again.draws(20, seed=9, weighted=weighted)["g"], expected)
    if method != "dais":
        np.testing.assert_allclose(fit.log_prob(fit.importance.z), fit.importance.log_q, rtol=1e-6)


@pytest.mark.parametrize("method", EACH)
def test_evidence_is_that_of_a_gaussian_whatever_the_flow(method):
    density = Normal([1.0, -2.0], [[4.0, 0.9], [0.9, 0.25]], log_z=0.7)
    target = ds.Target.from_functions(density.log_density_gradient, 2, hvp=density.hvp)
    fit = ds.fit(target, method, seed=1, schedule=QUICK, **EACH[method])
    assert abs(fit.log_evidence - 0.7) < 4 * fit.log_evidence_se + 1e-3
    assert fit.log_evidence_se < 0.05


@pytest.mark.parametrize("method", EACH)
def test_the_same_seed_gives_the_same_fit_on_one_and_two_threads(method):
    program, data = (stan_models() / f"eight_schools_noncentered{end}" for end in (".stan", ".data.json"))
    schedule = ds.Schedule(learning_rates=(0.03,), max_iterations=20)
    fits = [
        ds.fit(
            ds.Target.from_stan(program, data=data, threads=threads),
            method,
            seed=4,
            schedule=schedule,
            importance_draws=200,
            **EACH[method],
        )
        for threads in (1, 2)
    ]
    np.testing.assert_array_equal(fits[0].params, fits[1].params)
    np.testing.assert_array_equal(fits[0].importance.z, fits[1].importance.z)


def test_a_killed_fit_resumes_to_the_same_result(skewed, tmp_path, monkeypatch):
    monkeypatch.setattr("dais_stan.optimize.CHECKPOINT_SECONDS", 0.0)
    options = {"seed": 1, "schedule": QUICK, "importance_draws": 200, **SMALL}
    whole = ds.fit(skewed, "flow", **options)
    file = tmp_path / "fit.checkpoint"

    def kill(done, value, se):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ds.fit(skewed, "flow", checkpoint=file, progress=kill, **options)
    resumed = ds.fit(skewed, "flow", checkpoint=file, resume=True, **options)
    np.testing.assert_array_equal(resumed.params, whole.params)


def test_a_fixed_q0_keeps_its_flow(skewed):
    learn = ["steps", "betas"]
    options = {**EACH["dais0"], "learn": learn, "schedule": QUICK, "importance_draws": 200}
    fit = ds.fit(skewed, "dais0", seed=1, **options)
    np.testing.assert_allclose(fit.params, fit.family.initial(), rtol=1e-12)  # the average of equal iterates


def test_the_papers_preset_takes_a_flow(skewed):
    schedule = ds.Schedule(learning_rates=(1e-3,), max_iterations=20, fixed=True)
    for method in ("iwvi", "dais0", "msc"):
        options = {name: value for name, value in EACH[method].items() if name != "warm_start"}
        fit = ds.fit(
            skewed, method, preset="paper", seed=1, schedule=schedule, importance_draws=50, **options
        )
        assert fit.iterations == 20


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        (
            "flow",
            {"family": "meanfield"},
            "family of method 'flow' must be one of planar, iaf, .*'meanfield'",
        ),
        ("iwvi", {"flows": 4}, "flows is an option of planar, .* not of family 'meanfield'"),
        ("flow", {"family": "planar", "columns": 2}, "columns is an option of o-sylvester, not .* 'planar'"),
        ("flow", {"flows": 0}, "flows must be at least 1, found 0"),
        ("flow", {"columns": 9}, "columns must be from 1 to the dimension 2, found 9"),
        ("meanfield", {"flows": 2}, "flows is an option of"),
    ],
)
def test_a_bad_option_is_named(banana, method, options, message):
    with pytest.raises(ValueError, match=message):
        ds.fit(banana, method, seed=1, **options)


def test_flows_have_their_own_schedule():
    for method in ("flow", "iwvi", "msc", "dais0"):
        chosen = make_method(method, family="planar")
        assert chosen.schedule.learning_rates == (0.03, 0.01)


def test_on_the_command_line(cli, tmp_path):
    program = stan_models() / "banana.stan"
    options = ["--method", "flow", "--family", "o-sylvester", "--flows", 2, "--columns", 1]
    out = tmp_path / "fit.nc"
    run = cli(
        "fit", program, *options, "--seed", 1, "--max-iterations", 200, "--out", out, "--engine", "stanli"
    )
    assert run.code == 0
    assert ds.load(out).family.options == {"flows": 2, "columns": 1, "base": "meanfield"}
    refused = cli("fit", program, "--family", "planar", "--columns", 3, "--method", "iwvi")
    assert refused.code == 2 and "columns is an option of o-sylvester" in refused.err
