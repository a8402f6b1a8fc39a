"""Evidence, effective sample size and k-hat from importance weights, against closed forms."""

import numpy as np
import pytest
from scipy import stats

from dais_stan.importance import defensive_noise, importance_sample
from dais_stan.psis import pareto_smooth

LOG_Z = 3.7


def gaussian_case(scale, n=20_000, seed=5):
    """Target exp(LOG_Z) N(0.3, 1), q = N(0, scale^2)."""
    z = scale * np.random.default_rng(seed).standard_normal((n, 1))
    log_p = LOG_Z + stats.norm(0.3, 1.0).logpdf(z[:, 0])
    return importance_sample(z, log_p, stats.norm(0.0, scale).logpdf(z[:, 0]))


def test_evidence_is_within_its_own_error():
    sample = gaussian_case(1.3)
    assert abs(sample.log_evidence - LOG_Z) < 3 * sample.log_evidence_se
    assert 0.001 < sample.log_evidence_se < 0.01


def test_evidence_error_has_the_right_size():
    """The spread over repetitions is the reported standard error."""
    runs = [gaussian_case(1.3, n=2000, seed=seed) for seed in range(200)]
    spread = np.std([run.log_evidence for run in runs])
    assert spread == pytest.approx(np.mean([run.log_evidence_se for run in runs]), rel=0.15)


def test_elbo_is_below_the_evidence_by_the_kl():
    sample = gaussian_case(1.3)
    kl = np.log(1 / 1.3) + (1.3**2 + 0.3**2) / 2 - 0.5
    assert abs(sample.elbo - (LOG_Z - kl)) < 4 * sample.elbo_se


def test_constant_weights_are_perfect():
    z = np.zeros((1000, 1))
    sample = importance_sample(z, np.full(1000, 2.5), np.full(1000, 1.0))
    assert sample.khat == 0.0
    assert sample.log_evidence == pytest.approx(1.5)
    assert sample.log_evidence_se < 1e-8
    assert sample.ess == pytest.approx(1000)


def test_rounding_noise_is_not_a_tail():
    noise = 1e-13 * np.random.default_rng(0).standard_normal(1000)
    assert pareto_smooth(noise).khat == 0.0


@pytest.mark.parametrize("k", [0.3, 0.9])
def test_khat_is_the_tail_index_of_the_weights(k):
    """Weights u^-k with uniform u have a Pareto tail of index k; with the sign turned they have none."""
    log_weight = -k * np.log(np.random.default_rng(2).random(20_000))
    assert pareto_smooth(log_weight).khat == pytest.approx(k, abs=0.12)
    assert pareto_smooth(-log_weight).khat < 0.1


def test_a_pile_of_equal_weights_is_no_tail():
    """A beta posterior on the logit scale under its best Gaussian: the weights have a smooth maximum, where
    a quarter of them pile up, and the usual Pareto fit gives k-hat above 3 with 98 % of the draws effective.
    """
    z = -1.21 + 0.695 * np.random.default_rng(0).standard_normal((10_000, 1))
    log_p = 3 * z[:, 0] - 12 * np.log1p(np.exp(z[:, 0]))
    sample = importance_sample(z, log_p, stats.norm(-1.21, 0.695).logpdf(z[:, 0]))
    assert sample.ess > 9500
    assert sample.khat < 0.7


def test_khat_is_unbiased_over_pareto_tails():
    uniforms = [np.random.default_rng(seed).random(10_000) for seed in range(40)]
    estimates = [pareto_smooth(-0.7 * np.log(uniform)).khat for uniform in uniforms]
    assert np.mean(estimates) == pytest.approx(0.7, abs=0.05)


def test_defensive_noise_is_a_mixture_with_that_density():
    """The mean of 1 / (mixture over normal) under the mixture is one, and the heavy part is a Student t."""
    noise = defensive_noise(200_000, 2, np.random.default_rng(4))
    inverse = np.exp(-noise.log_ratio)
    assert abs(inverse.mean() - 1) < 4 * inverse.std() / np.sqrt(len(inverse))
    assert noise.n_q == 180_000
    heavy = noise.eps[noise.n_q :, 0]
    assert stats.kstest(heavy, stats.t(5).cdf).pvalue > 1e-3
    assert stats.kstest(noise.eps[: noise.n_q, 1], stats.norm.cdf).pvalue > 1e-3


def test_defensive_draws_bound_the_weights_of_a_heavier_tail():
    """A Laplace density under a Gaussian: its weights have no bound, with the defensive part they do."""
    rng = np.random.default_rng(6)
    noise = defensive_noise(20_000, 1, rng)
    z = noise.eps
    log_p = stats.laplace.logpdf(z[:, 0]) + LOG_Z
    log_q = stats.norm.logpdf(z[:, 0])
    sample = importance_sample(z, log_p, log_q, log_q + noise.log_ratio, noise.n_q)
    assert sample.khat < 0.7 < importance_sample(z, log_p, log_q).khat
    assert abs(sample.log_evidence - LOG_Z) < 3 * sample.log_evidence_se
    kl = np.log(2) - 0.5 * np.log(2 * np.pi) - 0.5 + np.sqrt(2 / np.pi)  # of the normal from the Laplace
    assert abs(sample.elbo - (LOG_Z - kl)) < 4 * sample.elbo_se


def test_a_q_narrower_than_the_posterior_has_a_large_khat():
    assert gaussian_case(0.4).khat > 0.7
    assert gaussian_case(1.5).khat < 0.5


def test_draws_outside_the_support_have_no_weight():
    rng = np.random.default_rng(3)
    z = rng.standard_normal((20_000, 1))
    log_q = stats.norm.logpdf(z[:, 0])
    half_normal = np.where(z[:, 0] > 0, LOG_Z + np.log(2) + stats.norm.logpdf(z[:, 0]), -np.inf)
    sample = importance_sample(z, half_normal, log_q)
    assert abs(sample.log_evidence - LOG_Z) < 3 * sample.log_evidence_se
    assert (z[sample.resample(5000, rng)] > 0).all()


def test_no_finite_draw_is_said_plainly():
    sample = importance_sample(np.zeros((100, 1)), np.full(100, -np.inf), np.zeros(100))
    assert sample.log_evidence == -np.inf
    assert sample.khat == np.inf
    assert sample.ess == 0.0


def test_resampling_gives_the_posterior_moments():
    sample = gaussian_case(1.5)
    draws = sample.z[sample.resample(20_000, np.random.default_rng(1)), 0]
    assert draws.mean() == pytest.approx(0.3, abs=0.04)
    assert draws.std() == pytest.approx(1.0, abs=0.04)
