"""Method "auto" and its parts: several modes, the Student mixture, adaptive importance sampling."""

from __future__ import annotations

import re

import numpy as np
import pytest
from densities import Normal, Skewed
from scipy import stats
from scipy.special import gammaln, logsumexp

import dais_stan as ds
from dais_stan.adaptive import MixtureFit, adapt, importance_of_mixture
from dais_stan.start import find_modes
from dais_stan.student_mixture import DF, StudentMixture, towards
from dais_stan.whitening import WhitenedTarget, Whitening

COVARIANCE = np.array([[1.0, 0.8, 0.0], [0.8, 1.5, -0.3], [0.0, -0.3, 0.5]])


pytestmark = pytest.mark.usefixtures("quiet")


def two_components() -> StudentMixture:
    factor = np.linalg.cholesky(COVARIANCE)
    return StudentMixture(
        np.array([0.3, 0.7]), np.array([[-3.0, 0.0, 1.0], [2.0, 2.0, -1.0]]), np.stack([factor, 0.5 * factor])
    )


def bimodal_target(share: float, distance: float = 5.0) -> ds.Target:
    """share N(-2, 0.3) + (1 - share) N(distance - 2, 0.3) in three coordinates; the evidence is one."""
    means = np.array([[-2.0] * 3, [distance - 2.0] * 3])
    shares = np.log([share, 1.0 - share])

    def log_density_gradient(z):
        offsets = (means[:, None] - z) / 0.3**2
        logs = stats.norm.logpdf(z, means[:, None], 0.3).sum(axis=2) + shares[:, None]
        value = logsumexp(logs, axis=0)
        return value, np.einsum("kn,knd->nd", np.exp(logs - value), offsets)

    return ds.Target.from_functions(log_density_gradient, 3)


def test_mixture_density_is_scipys() -> None:
    mixture = two_components()
    points = np.random.default_rng(1).normal(0, 3, (50, 3))
    expected = sum(
        weight * stats.multivariate_t(mean, factor @ factor.T, DF).pdf(points)
        for weight, mean, factor in zip(mixture.weights, mixture.means, mixture.factors, strict=True)
    )
    np.testing.assert_allclose(mixture.log_prob(points), np.log(expected), rtol=1e-10)


def test_mixture_draws_have_its_moments() -> None:
    mixture = two_components()
    draws = mixture.sample(200_000, np.random.default_rng(2))
    mean = mixture.weights @ mixture.means
    assert np.abs(draws.mean(axis=0) - mean).max() < 4 * draws.std(axis=0).max() / np.sqrt(len(draws))
    covariance = -np.outer(mean, mean)
    for weight, centre, factor in zip(mixture.weights, mixture.means, mixture.factors, strict=True):
        covariance = covariance + weight * (np.outer(centre, centre) + DF / (DF - 2) * factor @ factor.T)
    np.testing.assert_allclose(np.cov(draws.T), covariance, atol=0.06)


def test_expectation_maximisation_finds_the_mixture_from_weighted_draws() -> None:
    """Draws of a wide Gaussian, weighted to a known mixture: its likelihood is reached."""
    truth = two_components()
    rng = np.random.default_rng(3)
    wide = stats.multivariate_t(np.zeros(3), 9.0 * np.eye(3), 3)
    u = wide.rvs(60_000, random_state=rng)
    log_weight = truth.log_prob(u) - wide.logpdf(u)
    weight = np.exp(log_weight - logsumexp(log_weight))
    covariance = np.cov(u.T, aweights=weight)
    first = StudentMixture(
        np.full(2, 0.5), np.array([[-1.0, 0, 0], [1.0, 0, 0]]), np.stack([2 * np.eye(3)] * 2)
    )
    found = towards(first, u, weight, covariance, steps=200)
    order = np.argsort(found.means[:, 0])
    np.testing.assert_allclose(found.weights[order], truth.weights, atol=0.02)
    np.testing.assert_allclose(found.means[order], truth.means, atol=0.1)
    np.testing.assert_allclose(found.factors[order], truth.factors, atol=0.1)


def test_adapted_mixture_gives_the_evidence_of_a_skewed_density() -> None:
    """log Z = sum log Gamma(k_i) - log |det A|."""
    density = Skewed()
    target = ds.Target.from_functions(density.log_density_gradient, density.dim)
    whitened = WhitenedTarget(target, Whitening.identity(3))
    mixture, _ = adapt(whitened, [(np.zeros(3), 2.0 * np.eye(3))], np.random.default_rng(4))
    sample = importance_of_mixture(whitened, mixture, 20_000, np.random.default_rng(5))
    log_z = gammaln(density.shape).sum() - np.linalg.slogdet(density.mix)[1]
    assert abs(sample.log_evidence - log_z) < 4 * sample.log_evidence_se
    assert sample.log_evidence_se < 0.01 and sample.khat < 0.7


@pytest.mark.parametrize(("share", "best"), [(0.001, 1.0), (0.999, -2.0)])
def test_the_mode_with_more_of_the_posterior_comes_first(share: float, best: float) -> None:
    modes = find_modes(bimodal_target(share, 3.0), rng=np.random.default_rng(6))
    assert len(modes) == 2
    np.testing.assert_allclose(modes[0].start.whitening.centre, best, atol=1e-3)
    assert modes[0].elbo - modes[1].elbo == pytest.approx(np.log(999), abs=0.2)


def test_auto_takes_the_gaussian_where_it_passes() -> None:
    density = Normal([1.0, 2.0, 3.0], COVARIANCE, log_z=1.5)
    fit = ds.fit(ds.Target.from_functions(density.log_density_gradient, 3), "auto", seed=1)
    assert fit.method == "auto" and fit.settings["taken"]["method"] == "fullrank"
    assert fit.log_evidence == pytest.approx(1.5, abs=0.01)
    assert "Took fullrank: it passes" in fit.choice and fit.warnings == []


def test_auto_sees_two_modes() -> None:
    """A Gaussian at one mode has a k-hat that says nothing of the other; the evidence needs both."""
    fit = ds.fit(bimodal_target(0.3), "auto", seed=1)
    assert isinstance(fit, MixtureFit) and fit.warnings == []
    assert abs(fit.log_evidence) < 4 * fit.log_evidence_se < 0.1
    mean, variance = 0.3 * -2.0 + 0.7 * 3.0, 0.3**2 + 0.21 * 25.0
    np.testing.assert_allclose(fit.mean, mean, atol=0.1)
    np.testing.assert_allclose(fit.sd, np.sqrt(variance), atol=0.05)


def test_auto_climbs_where_the_gaussian_fails(tmp_path) -> None:
    """The banana: a full-rank Gaussian has k-hat above 0.7. The file holds the mixture."""
    code = "parameters { real x; real y; } model { target += -8 * square(y - square(x)) - square(x) / 4; }"
    target = ds.Target.from_stan(stan_code=code, engine="stanli")
    fit = ds.fit(target, "auto", seed=3)
    assert isinstance(fit, MixtureFit) and fit.khat < 0.7
    assert abs(fit.log_evidence - np.log(2 * np.pi * np.sqrt(2.0 / 16.0))) < 4 * fit.log_evidence_se < 0.2
    draws = fit.draws(4000, seed=1)
    assert abs(draws["x"].mean()) < 0.15 and draws["y"].mean() == pytest.approx(2.0, abs=0.2)
    fit.save(tmp_path / "fit.nc")
    loaded = ds.load(tmp_path / "fit.nc")
    assert isinstance(loaded, MixtureFit) and loaded.choice == fit.choice
    np.testing.assert_array_equal(loaded.draws(50, seed=4)["y"], fit.draws(50, seed=4)["y"])
    np.testing.assert_array_equal(loaded.log_prob(fit.importance.z[:5]), fit.log_prob(fit.importance.z[:5]))
    np.testing.assert_allclose(fit.log_prob(fit.importance.z[:5]), fit.importance.log_q[:5])


def test_auto_gives_the_same_fit_for_the_same_seed() -> None:
    one, two = (ds.fit(bimodal_target(0.4), "auto", seed=5) for _ in range(2))
    np.testing.assert_array_equal(one.importance.z, two.importance.z)


def test_auto_says_what_it_takes_no_part_in() -> None:
    with pytest.raises(ValueError, match="takes no start, particles"):
        ds.fit(bimodal_target(0.4), "auto", start="zero", particles=3)


def test_auto_takes_the_least_khat_where_nothing_passes() -> None:
    """Neal's funnel in 9 dimensions, whose flow is cut short."""
    code = "parameters { real y; vector[8] x; } model { y ~ normal(0, 3); x ~ normal(0, exp(y / 2)); }"
    target = ds.Target.from_stan(stan_code=code, engine="stanli")
    fit = ds.fit(target, "auto", seed=1, schedule=ds.Schedule(learning_rates=(0.03,), max_iterations=300))
    khats = re.findall(r"k-hat ([\d.]+)", fit.choice)
    assert len(khats) == 3 and "no rung passes, and it has the least k-hat" in fit.choice
    assert f"{fit.khat:.2f}" == min(khats) and fit.warnings
