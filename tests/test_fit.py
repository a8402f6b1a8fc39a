"""Fits against closed forms: moments, evidence, diagnostics, files, seeds."""

import numpy as np
import pytest

import dais_stan as ds
from dais_stan.arviz_io import arviz
from dais_stan.errors import TargetError

LOG_Z = 1.7
SCALES = np.array([1e-3, 1.0, 1e3, 10.0])
MEAN = SCALES * np.array([3.0, -1.0, 0.5, 2.0])


def gaussian_target(threads=None):
    """A correlated Gaussian whose parameters differ in scale by 1e6, with evidence exp(LOG_Z)."""
    mix = np.random.default_rng(0).standard_normal((4, 4))
    covariance = (mix @ mix.T + 0.2 * np.eye(4)) * np.outer(SCALES, SCALES)
    precision = np.linalg.inv(covariance)
    constant = LOG_Z - 0.5 * np.linalg.slogdet(2 * np.pi * covariance)[1]

    def log_density_gradient(z):
        gradient = -(z - MEAN) @ precision
        return constant + 0.5 * np.einsum("ij,ij->i", z - MEAN, gradient), gradient

    target = ds.Target.from_functions(log_density_gradient, 4)
    return target, covariance, precision


pytestmark = pytest.mark.usefixtures("quiet")


@pytest.mark.parametrize("start", ["mode", "zero"])
def test_mean_field_reaches_the_conditional_scales(start):
    """The optimum on N(m, S) is mu = m, s_i^2 = 1 / P_ii (spec of reverse KL)."""
    target, covariance, precision = gaussian_target()
    if start == "zero":  # without whitening the scales must be near one for any optimiser
        target = ds.Target.from_functions(_unit_scale(target), 4)
        covariance = covariance / np.outer(SCALES, SCALES)
        precision = precision * np.outer(SCALES, SCALES)
        expected_mean = MEAN / SCALES
    else:
        expected_mean = MEAN
    fit = ds.fit(target, "meanfield", seed=1, start=start)
    sd = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose((fit.mean - expected_mean) / sd, 0.0, atol=0.02)
    np.testing.assert_allclose(fit.sd * np.sqrt(np.diag(precision)), 1.0, atol=0.02)
    assert fit.converged


def _unit_scale(target):
    def log_density_gradient(u):
        value, gradient = target.log_density_gradient(u * SCALES)
        return value, gradient * SCALES

    return log_density_gradient


def test_full_rank_reaches_the_gaussian_and_its_evidence():
    target, covariance, _ = gaussian_target()
    fit = ds.fit(target, "fullrank", seed=1)
    sd = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose((fit.mean - MEAN) / sd, 0.0, atol=1e-3)
    np.testing.assert_allclose(fit.covariance / np.outer(sd, sd), covariance / np.outer(sd, sd), atol=0.02)
    assert fit.log_evidence == pytest.approx(LOG_Z, abs=1e-3)
    assert fit.elbo <= fit.log_evidence + 1e-9
    assert fit.khat < 0.5 and fit.converged and fit.warnings == []


def test_full_rank_from_zero_reaches_a_gaussian():
    target = ds.Target.from_functions(_unit_scale(gaussian_target()[0]), 4)
    covariance = gaussian_target()[1] / np.outer(SCALES, SCALES)
    fit = ds.fit(target, "fullrank", seed=1, start="zero")
    sd = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose((fit.mean - MEAN / SCALES) / sd, 0.0, atol=0.02)
    np.testing.assert_allclose(fit.covariance / np.outer(sd, sd), covariance / np.outer(sd, sd), atol=0.02)


BETA_BINOMIAL = "data { int n; int y; } parameters { real<lower=0, upper=1> th; } model { %s }"
TILDE = "th ~ beta(1, 1); y ~ binomial(n, th);"
TARGET = "target += beta_lpdf(th | 1, 1) + binomial_lpmf(y | n, th);"


@pytest.mark.parametrize("statements", [TILDE, TARGET], ids=["tilde", "target"])
def test_beta_binomial_evidence(statements):
    """The evidence of a flat prior is 1 / (n + 1), whichever way the program writes its density."""
    target = ds.Target.from_stan(stan_code=BETA_BINOMIAL % statements, data={"n": 10, "y": 2})
    fit = ds.fit(target, "fullrank", seed=3)
    assert abs(fit.log_evidence - -np.log(11)) < 3 * fit.log_evidence_se
    assert 1e-5 < fit.log_evidence_se < 0.02
    th = fit.draws(10_000, seed=1)["th"]
    assert th.mean() == pytest.approx(3 / 12, abs=0.004)
    assert th.std() == pytest.approx(np.sqrt(3 * 9 / (12**2 * 13)), abs=0.004)
    assert fit.khat < 0.7


SKEWED = """
parameters { real<lower=0> g; vector[2] x; }
model { g ~ gamma(3, 2); x ~ normal(log(g), 0.5); }
generated quantities { real twice = 2 * g; real u = uniform_rng(0, 1); }
"""


@pytest.fixture(scope="module")
def skewed():
    return ds.Target.from_stan(stan_code=SKEWED, engine="stanli")


def test_importance_weights_correct_what_q_cannot_follow(skewed):
    fit = ds.fit(skewed, "fullrank", seed=1)
    g = fit.draws(20_000, seed=1, weighted=True)["g"]
    assert g.mean() == pytest.approx(1.5, abs=0.03)
    assert g.std() == pytest.approx(np.sqrt(3) / 2, rel=0.03)
    of_q = fit.draws(20_000, seed=1, weighted=False)["g"]
    assert of_q.std() > 1.04 * np.sqrt(3) / 2  # a Gaussian log g has too long a right tail
    assert (fit.draws(500, seed=1)["twice"] == 2 * fit.draws(500, seed=1)["g"]).all()


def test_draws_are_repeatable_and_generated_quantities_differ(skewed):
    fit = ds.fit(skewed, "meanfield", seed=1)
    first, again, other = fit.draws(50, seed=5), fit.draws(50, seed=5), fit.draws(50, seed=6)
    np.testing.assert_array_equal(first["u"], again["u"])
    assert len(np.unique(first["u"])) == 50
    assert not np.array_equal(first["u"], other["u"])
    assert first["x"].shape == (50, 2) and first["g"].shape == (50,)


@pytest.mark.parametrize("method", ["meanfield", "fullrank"])
def test_log_prob_is_the_density_of_the_draws(skewed, method):
    fit = ds.fit(skewed, method, seed=1)
    np.testing.assert_allclose(fit.log_prob(fit.importance.z), fit.importance.log_q, rtol=1e-8, atol=1e-8)
    z = fit.unconstrained_draws(100_000, seed=1, weighted=False)
    np.testing.assert_array_less(np.abs(z.mean(axis=0) - fit.mean), 4.5 * fit.sd / np.sqrt(len(z)))
    np.testing.assert_allclose(z.std(axis=0), fit.sd, rtol=0.02)


def test_the_same_seed_gives_the_same_fit_on_one_and_two_threads():
    code = "parameters { vector[3] x; } model { x[1] ~ gumbel(0, 1); x[2:3] ~ normal(x[1], 0.3); }"
    fits = [
        ds.fit(ds.Target.from_stan(stan_code=code, threads=threads), "fullrank", seed=4)
        for threads in (1, 2, 2)
    ]
    for fit in fits[1:]:
        np.testing.assert_array_equal(fit.params, fits[0].params)
        np.testing.assert_array_equal(fit.importance.z, fits[0].importance.z)
        assert fit.log_evidence == fits[0].log_evidence
    assert not np.array_equal(ds.fit(fits[0].target, "fullrank", seed=5).params, fits[0].params)


def test_a_single_standard_normal_is_perfect(skewed):
    target = ds.Target.from_stan(
        stan_code="parameters { real x; } model { x ~ std_normal(); }", engine="stanli"
    )
    fit = ds.fit(target, "meanfield", seed=1)
    assert fit.converged and 200 <= fit.iterations <= 2000
    assert np.isfinite(fit.khat) and fit.khat < 0.5
    assert fit.mean == pytest.approx(0.0, abs=1e-3)
    assert fit.sd == pytest.approx(1.0, abs=1e-3)


def test_a_funnel_is_warned_of():
    """Mean-field on Neal's funnel: too narrow in v, and the fit says that it is not to be trusted."""
    code = "parameters { real v; vector[9] x; } model { v ~ normal(0, 3); x ~ normal(0, exp(v / 2)); }"
    target = ds.Target.from_stan(stan_code=code, engine="stanli")
    with pytest.warns(UserWarning, match="k-hat|converge"):
        fit = ds.fit(target, "meanfield", seed=1)
    assert fit.sd[0] < 3
    assert fit.draws(100)["x"].shape == (100, 9)
    assert fit.verdict().startswith("Not to be trusted")


def test_running_out_of_iterations_is_said_not_raised(skewed):
    with pytest.warns(UserWarning, match="did not converge in 150 iterations"):
        fit = ds.fit(skewed, "fullrank", seed=1, schedule=ds.Schedule(max_iterations=150))
    assert not fit.converged and fit.stopped_by == "max_iterations"


def test_counts_and_trace_are_those_of_the_fit(skewed):
    before = skewed.counts.gradient
    fit = ds.fit(skewed, "meanfield", seed=1, importance_draws=500)
    assert fit.counts.gradient == skewed.counts.gradient - before
    assert fit.counts.gradient >= 16 * fit.iterations
    assert fit.trace.iteration[-1] == fit.iterations
    assert fit.trace.value[-1] == pytest.approx(fit.elbo, abs=6 * (fit.trace.se[-1] + fit.elbo_se) + 0.02)
    assert len(fit.importance.z) == 500


def test_a_fit_survives_its_file(skewed, tmp_path):
    fit = ds.fit(skewed, "fullrank", seed=1, importance_draws=1000)
    fit.save(tmp_path / "fit.nc", n=300)
    again = ds.load(tmp_path / "fit.nc")
    np.testing.assert_array_equal(again.params, fit.params)
    assert vars(again.trace) == vars(fit.trace)
    for name in (
        "khat",
        "log_evidence",
        "log_evidence_se",
        "elbo",
        "seed",
        "converged",
        "counts",
        "settings",
    ):
        assert getattr(again, name) == getattr(fit, name), name
    for name, values in fit.draws(20, seed=9).items():
        np.testing.assert_array_equal(again.draws(20, seed=9)[name], values)
    assert arviz.from_netcdf(tmp_path / "fit.nc")["posterior"]["x"].shape == (1, 300, 2)


def test_a_fit_of_functions_loads_with_its_target(tmp_path):
    target, *_ = gaussian_target()
    fit = ds.fit(target, "fullrank", seed=1, importance_draws=100)
    fit.save(tmp_path / "fit.nc", n=50)
    with pytest.raises(TargetError, match="give the target"):
        ds.load(tmp_path / "fit.nc")
    np.testing.assert_array_equal(ds.load(tmp_path / "fit.nc", target=target).mean, fit.mean)


def test_arviz_export_has_groups_and_says_how_it_was_made(skewed):
    fit = ds.fit(skewed, "fullrank", seed=1)
    exported = fit.to_arviz(200)
    assert exported["posterior"]["x"].dims == ("chain", "draw", "x_dim_0")
    assert exported["posterior"]["g"].shape == (1, 200)
    stats = exported["sample_stats"]
    np.testing.assert_allclose(stats["log_ratio"], stats["lp"] - stats["log_q"])
    attributes = exported["posterior"].attrs
    assert attributes["method"] == "fullrank" and attributes["seed"] == 1 and "verdict" in attributes
    assert list(fit.summary(200).index[:4]) == ["g", "x[1]", "x[2]", "twice"]


def test_log_likelihood_and_observed_data_have_their_groups():
    code = """data { int N; vector[N] y; } parameters { real m; }
    model { m ~ normal(0, 1); y ~ normal(m, 1); }
    generated quantities { vector[N] log_lik; for (n in 1:N) log_lik[n] = normal_lpdf(y[n] | m, 1); }"""
    target = ds.Target.from_stan(stan_code=code, data={"N": 3, "y": [0.1, 0.5, -0.2]}, engine="stanli")
    exported = ds.fit(target, "meanfield", seed=1).to_arviz(100)
    assert exported["log_likelihood"]["log_lik"].shape == (1, 100, 3)
    assert "log_lik" not in exported["posterior"]
    np.testing.assert_array_equal(exported["observed_data"]["y"], [0.1, 0.5, -0.2])


def test_a_killed_fit_resumes_to_the_same_result(skewed, tmp_path, monkeypatch):
    monkeypatch.setattr("dais_stan.optimize.CHECKPOINT_SECONDS", 0.0)
    whole = ds.fit(skewed, "fullrank", seed=1)
    file = tmp_path / "fit.checkpoint"

    def kill(done, elbo, se):
        if done >= 300:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ds.fit(skewed, "fullrank", seed=1, checkpoint=file, progress=kill)
    assert file.exists()
    resumed = ds.fit(skewed, "fullrank", seed=1, checkpoint=file, resume=True)
    np.testing.assert_array_equal(resumed.params, whole.params)
    assert resumed.log_evidence == whole.log_evidence
    with pytest.raises(ValueError, match="another run"):
        ds.fit(skewed, "fullrank", seed=2, checkpoint=file, resume=True)


@pytest.mark.parametrize("method", ["fullrank", "auto"])
def test_a_killed_fit_without_a_seed_resumes_with_the_seed_of_its_checkpoint(
    skewed, tmp_path, monkeypatch, method
):
    monkeypatch.setattr("dais_stan.optimize.CHECKPOINT_SECONDS", 0.0)
    file = tmp_path / "fit.checkpoint"

    def kill(done, elbo, se):
        if done >= 300:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ds.fit(skewed, method, checkpoint=file, progress=kill)
    resumed = ds.fit(skewed, method, checkpoint=file, resume=True)
    whole = ds.fit(skewed, method, seed=resumed.seed)
    np.testing.assert_array_equal(resumed.params, whole.params)
    assert resumed.log_evidence == whole.log_evidence


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "full"}, "method must be one of auto, meanfield, fullrank.*, found 'full'"),
        ({"draws_per_step": 0}, "draws_per_step must be at least 1, found 0"),
        ({"importance_draws": 0}, "importance_draws must be at least 1"),
        ({"start": "middle"}, "start must be 'mode'"),
        ({"start": [0.0]}, "start must have 3 unconstrained values"),
        ({"resume": True}, "resume needs the checkpoint"),
    ],
)
def test_a_bad_argument_is_named(skewed, options, message):
    with pytest.raises(ValueError, match=message):
        ds.fit(skewed, seed=1, **options)


def test_starts_from_given_values_of_the_models_variables(skewed):
    fit = ds.fit(skewed, "fullrank", seed=1, start={"g": 1.5, "x": [1.0, 2.0]})
    assert fit.settings["start"] == "given"
    assert fit.mean[0] == pytest.approx(ds.fit(skewed, "fullrank", seed=1).mean[0], abs=0.02)
