"""Every family: log density against SciPy, pullback and score against central differences."""

from functools import partial

import numpy as np
import pytest
from densities import central_difference
from scipy import stats

from dais_stan.families import FLOWS, FlowFamily, FullRank, MeanField

GAUSSIANS = [MeanField, FullRank]
FAMILIES = [*GAUSSIANS, *(partial(FlowFamily, kind, flows=3) for kind in FLOWS)]
FAMILIES.append(partial(FlowFamily, "o-sylvester", flows=2, columns=1, base="fullrank"))
DIMS = [1, 2, 5]


def random_params(family, rng):
    return family.initial() + 0.5 * rng.standard_normal(family.n_params)


def covariance(family, params):
    _, factor = family.moments(params)
    return np.diag(factor**2) if factor.ndim == 1 else factor @ factor.T


@pytest.fixture
def rng():
    return np.random.default_rng(20240501)


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("family_type", FAMILIES)
class TestEveryFamily:
    def test_log_prob_is_log_q_of_the_draw(self, family_type, dim, rng):
        family = family_type(dim)
        params, eps = random_params(family, rng), rng.standard_normal((7, dim))
        sample = family.sample(params, eps)
        np.testing.assert_allclose(family.log_prob(params, sample.z), sample.log_q, rtol=1e-7, atol=1e-7)
        np.testing.assert_allclose(family.noise(params, sample.z), eps, rtol=1e-6, atol=1e-7)

    def test_log_q_is_normalised(self, family_type, dim, rng):
        """The mean over q of a proposal's density over q's is 1, for a proposal narrower than q's base."""
        family = family_type(dim)
        params, eps = random_params(family, rng), rng.standard_normal((100_000, dim))
        sample = family.sample(params, eps)
        narrow = family.sample(params, 0.6 * eps[:2_000]).z
        proposal = stats.multivariate_normal(narrow.mean(axis=0), np.cov(narrow.T))
        ratio = np.exp(proposal.logpdf(sample.z) - sample.log_q)
        assert abs(ratio.mean() - 1.0) < 5.0 * ratio.std() / np.sqrt(len(ratio)) < 0.1

    def test_moments_are_those_of_the_draws(self, family_type, dim, rng):
        family = family_type(dim)
        params = random_params(family, rng)
        z = family.sample(params, rng.standard_normal((200_000, dim))).z
        mean, _ = family.moments(params)
        cov = covariance(family, params)
        error = 4.5 * np.sqrt(np.diag(cov) / len(z)) * (1.0 if family_type in GAUSSIANS else 4.0)
        np.testing.assert_array_less(np.abs(z.mean(0) - mean), error)
        np.testing.assert_allclose(np.cov(z.T).reshape(dim, dim), cov, atol=0.05 * np.diag(cov).max())

    def test_pullback_is_the_gradient(self, family_type, dim, rng):
        family = family_type(dim)
        params = random_params(family, rng)
        eps = rng.standard_normal((4, dim))
        z_bar, log_q_bar = rng.standard_normal((4, dim)), rng.standard_normal(4)

        def scalar(p):
            sample = family.sample(p, eps)
            return (z_bar * sample.z).sum() + (log_q_bar * sample.log_q).sum()

        tape = family.sample(params, eps).tape
        expected = central_difference(scalar, params)
        np.testing.assert_allclose(
            family.pullback(params, tape, z_bar, log_q_bar), expected, rtol=1e-6, atol=1e-8
        )
        without = family.pullback(params, tape, z_bar, None)
        np.testing.assert_allclose(
            without, family.pullback(params, tape, z_bar, np.zeros(4)), rtol=1e-12, atol=1e-14
        )

    def test_score_is_the_gradient_of_log_prob(self, family_type, dim, rng):
        family = family_type(dim)
        params = random_params(family, rng)
        sample = family.sample(params, rng.standard_normal((3, dim)))
        expected = [
            central_difference(lambda z: family.log_prob(params, z[None])[0], point) for point in sample.z
        ]
        np.testing.assert_allclose(family.score(params, sample.tape), expected, rtol=1e-6, atol=1e-7)

    def test_starts_as_the_standard_normal(self, family_type, dim, rng):
        family = family_type(dim)
        eps = rng.standard_normal((3, dim))
        np.testing.assert_allclose(family.sample(family.initial(), eps).z, eps, atol=1e-14)


def test_a_full_rank_that_does_not_fit_is_refused_with_its_size():
    with pytest.raises(ValueError, match=r"20001 unconstrained parameters .* 3\.2 GB"):
        FullRank(20_001)


@pytest.mark.parametrize("family_type", GAUSSIANS)
def test_log_q_of_a_gaussian_is_that_of_scipy(family_type, rng):
    family = family_type(4)
    params = random_params(family, rng)
    sample = family.sample(params, rng.standard_normal((7, 4)))
    expected = stats.multivariate_normal(family.moments(params)[0], covariance(family, params))
    np.testing.assert_allclose(sample.log_q, expected.logpdf(sample.z), rtol=1e-9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"flows": 0}, "flows must be at least 1, found 0"),
        ({"columns": 4}, "columns must be from 1 to the dimension 3, found 4"),
    ],
)
def test_a_flow_out_of_range_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        FlowFamily("o-sylvester", 3, **options)
