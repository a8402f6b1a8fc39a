"""Every method through ``fit``: its optimum, evidence, files, resumption, presets and refusals."""

from __future__ import annotations

import resource

import numpy as np
import pytest
from densities import Normal

import dais_stan as ds
from dais_stan.methods import METHODS, make_method
from dais_stan.resources import stan_models

LOG_Z = 0.7
MEAN = np.array([1.0, -2.0])
RHO = 0.9
COVARIANCE = np.array([[4.0, RHO * 2 * 0.5], [RHO * 2 * 0.5, 0.25]])
MARGINAL = np.sqrt(np.diag(COVARIANCE))
CONDITIONAL = MARGINAL * np.sqrt(1 - RHO**2)
QUICK = ds.Schedule(learning_rates=(0.05,), max_iterations=400)
SMALL = {
    "iwvi": {"particles": 4},
    "dais0": {"particles": 4, "transitions": 4},
    "dais": {"particles": 4, "transitions": 4},
    "msc": {"particles": 4, "chains": 2},
}


pytestmark = pytest.mark.usefixtures("quiet")


@pytest.fixture(scope="module")
def gaussian():
    density = Normal(MEAN, COVARIANCE, LOG_Z)
    return ds.Target.from_functions(density.log_density_gradient, 2, hvp=density.hvp)


@pytest.fixture(scope="module")
def skewed():
    code = "parameters { real<lower=0> g; real x; } model { g ~ gamma(3, 2); x ~ normal(log(g), 0.5); }"
    return ds.Target.from_stan(stan_code=code, engine="stanli")


@pytest.mark.parametrize("method", SMALL)
@pytest.mark.parametrize("family", ["meanfield", "fullrank"])
def test_mean_and_evidence_of_a_gaussian(gaussian, method, family):
    fit = ds.fit(gaussian, method, seed=1, family=family, **SMALL[method])
    assert abs(fit.log_evidence - LOG_Z) < 4 * fit.log_evidence_se + 1e-3
    assert fit.log_evidence_se < 0.05 and fit.khat < 0.7
    np.testing.assert_allclose((fit.mean - MEAN) / MARGINAL, 0.0, atol=0.08)
    draws = fit.unconstrained_draws(8_000, seed=2)
    np.testing.assert_allclose(draws.std(axis=0) / MARGINAL, 1.0, atol=0.1)


def test_each_method_has_its_own_spread(gaussian):
    """VI has the conditional spread, MSC the marginal one, DAIS_0 with few transitions one in between."""
    sd = {
        method: ds.fit(gaussian, method, seed=1, **options).sd
        for method, options in {
            "meanfield": {},
            "dais0": {"particles": 1, "transitions": 4},
            "iwvi": {"particles": 16},
            "msc": {"particles": 16},
        }.items()
    }
    np.testing.assert_allclose(sd["meanfield"], CONDITIONAL, rtol=0.02)
    np.testing.assert_allclose(sd["msc"], MARGINAL, rtol=0.06)
    for method in ("dais0", "iwvi"):
        assert (sd[method] > 0.98 * CONDITIONAL).all() and (sd[method] < 1.2 * MARGINAL).all()
        assert (sd[method] > 1.3 * CONDITIONAL).any()


def test_annealed_weights_have_less_error_than_those_of_q(gaussian):
    options = {"particles": 4, "transitions": 8, "seed": 1, "importance_draws": 20_000}
    q0, annealed = (ds.fit(gaussian, method, **options) for method in ("dais0", "dais"))
    assert annealed.log_evidence_se < 0.8 * q0.log_evidence_se
    assert annealed.ess > 1.4 * q0.ess
    mean, covariance = annealed.end_moments(weighted=True)
    np.testing.assert_allclose((mean - MEAN) / MARGINAL, 0.0, atol=0.1)
    np.testing.assert_allclose(covariance / np.outer(MARGINAL, MARGINAL), [[1, RHO], [RHO, 1]], atol=0.08)
    unweighted = annealed.unconstrained_draws(20_000, seed=3, weighted=False)
    expected = annealed.end_moments(weighted=False)[0]
    np.testing.assert_allclose((unweighted.mean(axis=0) - expected) / MARGINAL, 0.0, atol=0.1)


@pytest.mark.parametrize("method", SMALL)
def test_a_fit_survives_its_file(skewed, tmp_path, method):
    fit = ds.fit(skewed, method, seed=1, schedule=QUICK, importance_draws=500, **SMALL[method])
    fit.save(tmp_path / "fit.nc", n=100)
    again = ds.load(tmp_path / "fit.nc")
    assert type(again) is type(fit)
    for name in ("khat", "log_evidence", "log_evidence_se", "ess", "settings", "method", "counts"):
        assert getattr(again, name) == getattr(fit, name), name
    np.testing.assert_array_equal(again.mean, fit.mean)
    for weighted in (True, False):
        expected = fit.draws(20, seed=9, weighted=weighted)["g"]
        np.testing.assert_array_equal(again.draws(20, seed=9, weighted=weighted)["g"], expected)
    assert fit.groups(50)["sample_stats"]["log_ratio"].shape == (1, 50)


@pytest.mark.parametrize("method", SMALL)
def test_a_killed_fit_resumes_to_the_same_result(skewed, tmp_path, monkeypatch, method):
    monkeypatch.setattr("dais_stan.optimize.CHECKPOINT_SECONDS", 0.0)
    options = {"seed": 1, "schedule": QUICK, "importance_draws": 200, **SMALL[method]}
    whole = ds.fit(skewed, method, **options)
    file = tmp_path / "fit.checkpoint"

    def kill(done, value, se):
        if done >= 200:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ds.fit(skewed, method, checkpoint=file, progress=kill, **options)
    resumed = ds.fit(skewed, method, checkpoint=file, resume=True, **options)
    np.testing.assert_array_equal(resumed.params, whole.params)
    assert resumed.log_evidence == whole.log_evidence
    with pytest.raises(ValueError, match="another run"):
        ds.fit(skewed, method, checkpoint=file, resume=True, **{**options, "particles": 5})


@pytest.mark.parametrize("method", SMALL)
def test_the_same_seed_gives_the_same_fit_on_one_and_two_threads(method):
    program, data = (stan_models() / f"eight_schools_noncentered{end}" for end in (".stan", ".data.json"))
    fits = [
        ds.fit(
            ds.Target.from_stan(program, data=data, threads=threads),
            method,
            seed=4,
            schedule=ds.Schedule(learning_rates=(0.05,), max_iterations=100),
            importance_draws=200,
        )
        for threads in (1, 2)
    ]
    np.testing.assert_array_equal(fits[0].params, fits[1].params)
    np.testing.assert_array_equal(fits[0].importance.z, fits[1].importance.z)
    assert fits[0].log_evidence == fits[1].log_evidence


@pytest.mark.slow
@pytest.mark.parametrize("native", [True, False])
def test_memory_is_flat_over_many_iterations(gaussian, native):
    """The process's peak rises by less than 4 MB between iterations 2,000 and 20,000."""
    program, data = (stan_models() / f"eight_schools_noncentered{end}" for end in (".stan", ".data.json"))
    target = ds.Target.from_stan(program, data=data) if native else gaussian
    peaks = {}

    def watch(done, value, se):
        peaks[done] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    schedule = ds.Schedule(learning_rates=(0.005,), max_iterations=20_000, fixed=True)
    ds.fit(target, "dais", seed=1, schedule=schedule, progress=watch, particles=4, transitions=4)
    assert len(peaks) == 200 and peaks[20_000] - peaks[2_000] < 4_000  # kB


@pytest.mark.parametrize("method", SMALL)
def test_the_papers_preset_is_what_it_says(gaussian, method):
    chosen = make_method(method, "paper", **SMALL[method])
    assert chosen.start == "zero"
    schedule = chosen.schedule
    assert schedule.fixed and schedule.learning_rates == (1e-3,) and schedule.clip is None
    short = ds.Schedule(**{**vars(schedule), "max_iterations": 300})
    fit = ds.fit(gaussian, method, preset="paper", seed=1, schedule=short, **SMALL[method])
    assert fit.stopped_by == "fixed_length" and fit.iterations == 300
    assert not any("converge" in message for message in fit.warnings)
    np.testing.assert_array_equal(fit.whitening.scale, 1.0)
    if method == "dais":
        delta_over_root_mass = np.exp(-5.0 - 1.0)
        np.testing.assert_allclose(fit.annealing.steps * fit.annealing.factor, delta_over_root_mass, rtol=0.6)


@pytest.mark.parametrize("method", ["iwvi", "dais0"])
def test_the_papers_preset_learns_log_variances(gaussian, method):
    """One step of Adam moves a mean by the learning rate and a log standard deviation by half of it."""
    schedule = ds.Schedule(learning_rates=(1e-3,), max_iterations=1, fixed=True, clip=None)
    fit = ds.fit(gaussian, method, preset="paper", seed=1, schedule=schedule, **SMALL[method])
    np.testing.assert_allclose(np.abs(fit.params), [1e-3, 1e-3, 5e-4, 5e-4], rtol=1e-4)


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        ("msc", {"particles": 1}, "never moves and q shrinks"),
        ("msc", {"chains": 0}, "chains must be at least 1"),
        ("iwvi", {"particles": 0}, "particles must be at least 1, found 0"),
        ("dais0", {"transitions": 0}, "transitions must be at least 1"),
        ("dais0", {"transitions": 2.5}, "transitions must be a whole number, found 2.5"),
        ("iwvi", {"particles": True}, "particles must be a whole number, found True"),
        ("flow", {"family": "planar", "flows": "2"}, "flows must be a whole number, found '2'"),
        ("flow", {"family": "o-sylvester", "columns": 0}, "columns must be at least 1, found 0"),
        ("flow", {"family": ["planar"]}, "family must be one of"),
        ("dais0", {"mass": "dense"}, "mass must be"),
        ("dais0", {"family": "flow"}, "family must be one of meanfield, fullrank, planar, .*, found 'flow'"),
        ("dais", {"step": 0.0}, "step must be positive"),
        ("dais", {"retention": 1.0}, "retention must lie between"),
        (
            "meanfield",
            {"particles": 4},
            "method 'meanfield' has no option particles; it has columns, draws_per_step",
        ),
        ("meanfield", {"family": "iaf"}, "family of method 'meanfield' must be 'meanfield', found 'iaf'"),
        ("meanfield", {"preset": "paper"}, "preset must be None or"),
        ("dais", {"preset": "papers"}, "preset must be None or"),
    ],
)
def test_a_bad_option_is_named(gaussian, method, options, message):
    with pytest.raises(ValueError, match=message):
        ds.fit(gaussian, method, seed=1, **options)


def test_every_method_is_tested_here():
    """Or, where its family is a flow, in test_flow_fits.py."""
    assert set(METHODS) == {"meanfield", "fullrank", "flow", *SMALL}
