"""Markovian score climbing: its kernel keeps the posterior, its gradient is the score, q finds moments."""

import numpy as np
import pytest
from densities import Normal, Skewed, central_difference
from scipy.special import softmax

from dais_stan.families import FullRank, MeanField
from dais_stan.objectives.msc import msc
from dais_stan.optimize import Schedule, maximize

MEAN = np.array([0.6, -0.4])
COVARIANCE = np.array([[1.0, 0.6], [0.6, 0.8]])
TARGET = Normal(MEAN, COVARIANCE)


@pytest.fixture(params=[MeanField, FullRank])
def family(request):
    return request.param(2)


def step(density, family, params, chains, particles, rng):
    eps = rng.standard_normal((len(chains), particles - 1, family.dim))
    return msc(density, family, params, chains, eps, rng.random(len(chains)))


def test_the_kernel_leaves_the_posterior_invariant(family):
    """Exact draws stay exact after five steps with a wrong q: moments within 4 standard errors."""
    rng = np.random.default_rng(1)
    n = 20_000
    chains = rng.multivariate_normal(MEAN, COVARIANCE, n)
    params = family.initial() + 0.3
    start = chains
    for _ in range(5):
        chains = step(TARGET, family, params, chains, 3, rng).chains
    assert np.mean((chains != start).any(axis=1)) > 0.8
    centred = chains - MEAN
    np.testing.assert_allclose(centred.mean(axis=0), 0.0, atol=4 / np.sqrt(n))
    np.testing.assert_allclose(centred.T @ centred / n, COVARIANCE, atol=4 * 1.5 / np.sqrt(n))


def test_the_kernel_reaches_the_posterior_from_afar():
    rng = np.random.default_rng(2)
    family = MeanField(2)
    chains = np.full((5_000, 2), 3.0)
    for _ in range(60):
        chains = step(TARGET, family, family.initial(), chains, 6, rng).chains
    np.testing.assert_allclose(chains.mean(axis=0), MEAN, atol=0.06)
    np.testing.assert_allclose(np.cov(chains.T), COVARIANCE, atol=0.08)


def test_gradient_is_the_weighted_score(family):
    """The derivative of the weighted mean of log q, with candidates and weights held where they are."""
    rng = np.random.default_rng(3)
    params = family.initial() + 0.3 * rng.standard_normal(family.n_params)
    chains, eps = rng.standard_normal((3, 2)), rng.standard_normal((3, 4, 2))
    estimate = msc(TARGET, family, params, chains, eps, rng.random(3)).estimate
    proposals = family.sample(params, eps.reshape(-1, 2)).z.reshape(3, 4, 2)
    candidates = np.concatenate((chains[:, None], proposals), axis=1)
    flat = candidates.reshape(-1, 2)
    weight = softmax((TARGET.log_density(flat) - family.log_prob(params, flat)).reshape(3, 5), axis=1)

    def objective(p):
        return (weight.reshape(-1) * family.log_prob(p, flat)).sum() / 3

    assert estimate.value == pytest.approx(objective(params), rel=1e-12)
    np.testing.assert_allclose(estimate.gradient, central_difference(objective, params), rtol=1e-6, atol=1e-8)


def test_a_chain_moves_to_each_candidate_as_often_as_its_weight_says():
    rng = np.random.default_rng(4)
    family = MeanField(2)
    params, chain, eps = family.initial(), np.array([[0.5, 0.5]]), rng.standard_normal((1, 2, 2))
    candidates = np.concatenate((chain, eps[0]))
    weight = softmax(TARGET.log_density(candidates) - family.log_prob(params, candidates))
    n = 20_000
    ends = msc(
        TARGET, family, params, np.repeat(chain, n, 0), np.repeat(eps, n, 0), (np.arange(n) + 0.5) / n
    ).chains
    share = [(ends == candidate).all(axis=1).mean() for candidate in candidates]
    np.testing.assert_allclose(share, weight, atol=2 / n)


@pytest.mark.parametrize("chains", [1, 8])
def test_q_finds_the_moments_not_the_conditional_spread(family, chains):
    """The optimum of KL(p || q): the posterior's mean and marginal variances, its covariance in full rank."""
    state = np.zeros((chains, 2))

    def objective(params, rng):
        climb = step(TARGET, family, params, state, 8, rng)
        state[:] = climb.chains
        return climb.estimate

    schedule = Schedule(learning_rates=(0.05, 0.01), max_iterations=6_000)
    optimum = maximize(objective, family.initial(), schedule, np.random.default_rng(5))
    mean, factor = family.moments(optimum.params)
    np.testing.assert_allclose(mean, MEAN, atol=0.06)
    if factor.ndim == 1:
        np.testing.assert_allclose(factor, np.sqrt(np.diag(COVARIANCE)), atol=0.04)
    else:
        np.testing.assert_allclose(factor @ factor.T, COVARIANCE, atol=0.09)


def test_a_chain_without_weight_stays_and_takes_no_part():
    family, wall = MeanField(3), 0.0
    density = Skewed(wall)
    chains = np.array([[-2.0, 0.0, 0.0], [0.5, 0.1, -0.2]])
    eps = np.array([[[-1.0, 0.0, 0.0]], [[0.3, 0.0, 0.0]]])
    both = msc(density, family, family.initial(), chains, eps, np.array([0.9, 0.9]))
    alone = msc(density, family, family.initial(), chains[1:], eps[1:], np.array([0.9]))
    assert both.estimate.rejected == 2
    np.testing.assert_array_equal(both.chains[0], chains[0])
    np.testing.assert_array_equal(both.chains[1], alone.chains[0])
    np.testing.assert_allclose(both.estimate.gradient, alone.estimate.gradient, rtol=1e-13)

    stuck = msc(density, family, family.initial(), chains[:1], eps[:1], np.array([0.9]))
    assert stuck.estimate.value == -np.inf and not stuck.estimate.gradient.any()
    np.testing.assert_array_equal(stuck.chains, chains[:1])


def test_one_particle_is_refused_with_the_reason(family):
    with pytest.raises(ValueError, match="the chain never moves and q shrinks onto its start"):
        step(TARGET, family, family.initial(), np.zeros((1, 2)), 1, np.random.default_rng(0))
