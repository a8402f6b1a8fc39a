"""The N-particle bound, its two gradients, and draws by resampling."""

import numpy as np
import pytest
from densities import Normal, Skewed, central_difference
from scipy.special import logsumexp

from dais_stan.families import MeanField
from dais_stan.objectives.elbo import elbo
from dais_stan.objectives.iwelbo import iwelbo, resampled_draws

DIM = 3


def noise(groups, particles, seed=1):
    return np.random.default_rng(seed).standard_normal((groups, particles, DIM))


def test_value_is_the_mean_of_the_groups_log_mean_weights(family, params):
    eps, density = noise(3, 5), Skewed()
    expected = []
    for group in eps:
        sample = family.sample(params, group)
        log_weight = density.log_density_gradient(sample.z)[0] - sample.log_q
        expected.append(logsumexp(log_weight) - np.log(5))
    assert iwelbo(density, family, params, eps).value == pytest.approx(np.mean(expected), rel=1e-13)


@pytest.mark.parametrize("doubly", [True, False])
def test_one_particle_is_the_elbo(family, params, doubly):
    eps = noise(6, 1)
    estimate = iwelbo(Skewed(), family, params, eps, doubly)
    expected = elbo(Skewed(), family, params, eps[:, 0], stick_the_landing=doubly)
    assert estimate.value == pytest.approx(expected.value, rel=1e-13)
    np.testing.assert_allclose(estimate.gradient, expected.gradient, rtol=1e-11, atol=1e-13)


def test_standard_gradient_is_that_of_the_value(family, params):
    eps = noise(2, 4)
    estimate = iwelbo(Skewed(), family, params, eps, doubly_reparametrised=False)
    expected = central_difference(lambda p: iwelbo(Skewed(), family, p, eps).value, params)
    np.testing.assert_allclose(estimate.gradient, expected, rtol=1e-6, atol=1e-7)


def test_double_reparametrisation_leaves_the_expectation(family, params):
    """Means of the two gradients over the same noise differ by no more than 4 of their standard errors."""
    difference = []
    for seed in range(400):
        eps = noise(8, 4, seed)
        full = iwelbo(Skewed(), family, params, eps, doubly_reparametrised=False).gradient
        difference.append(full - iwelbo(Skewed(), family, params, eps).gradient)
    difference = np.array(difference)
    se = difference.std(axis=0) / np.sqrt(len(difference))
    assert (np.abs(difference.mean(axis=0)) < 4 * se + 1e-12).all()
    assert se.max() > 1e-4  # they are two estimators, not one


def test_the_bound_rises_to_the_evidence_with_more_particles():
    log_z = 0.8
    density, family = Normal([0.5, -0.3, 0.2], np.diag([0.5, 1.5, 1.0]), log_z), MeanField(DIM)
    bounds = [
        iwelbo(density, family, family.initial(), noise(4000 // n, n, seed=n)).value for n in (1, 4, 16, 200)
    ]
    assert bounds[0] < bounds[1] < bounds[2] < log_z
    assert bounds[3] == pytest.approx(log_z, abs=0.02)


@pytest.mark.parametrize("doubly", [True, False])
def test_rejected_particles_have_no_weight_and_are_counted(family, params, doubly):
    """A group keeps the N of its mean: its rejected particles have weight zero, they are not missing."""
    eps = noise(20, 2, seed=4)
    wall = 0.2
    z = family.sample(params, eps.reshape(-1, DIM)).z
    inside = (z[:, 0] >= wall).reshape(20, 2)
    kinds = {tuple(row) for row in inside}
    assert kinds == {(True, True), (True, False), (False, True), (False, False)}
    estimate = iwelbo(Skewed(wall), family, params, eps, doubly)
    assert estimate.rejected == (~inside).sum()

    values, gradients = [], []
    for group, usable in zip(eps, inside, strict=True):
        if usable.any():
            part = iwelbo(Skewed(), family, params, group[usable][None], doubly)
            values.append(part.value + np.log(usable.sum() / 2))
            gradients.append(part.gradient)
    assert estimate.value == pytest.approx(np.mean(values), rel=1e-12)
    np.testing.assert_allclose(estimate.gradient, np.mean(gradients, axis=0), rtol=1e-10, atol=1e-12)


def test_no_usable_particle_gives_minus_infinity_and_no_gradient(family, params):
    estimate = iwelbo(Skewed(wall=np.inf), family, params, noise(3, 2))
    assert (estimate.value, estimate.rejected) == (-np.inf, 6)
    assert not estimate.gradient.any()


def test_resampling_moves_draws_from_q_to_the_target():
    """One candidate gives q; many give the target; the draws' bias falls as 1 / candidates."""
    target = Normal([0.7, -0.5, 0.2], [[0.6, 0.2, 0.0], [0.2, 0.5, 0.1], [0.0, 0.1, 0.7]])
    family = MeanField(DIM)
    rng = np.random.default_rng(8)
    of_q = resampled_draws(target, family, family.initial(), 1, 20_000, rng)
    np.testing.assert_allclose(of_q.mean(axis=0), 0.0, atol=4 / np.sqrt(20_000))
    draws = resampled_draws(target, family, family.initial(), 400, 4_000, rng)
    assert draws.shape == (4_000, DIM)
    np.testing.assert_allclose(draws.mean(axis=0), target.mean, atol=0.06)
    np.testing.assert_allclose(np.cov(draws.T), target.covariance, atol=0.07)


def test_resampling_refuses_what_it_cannot_do(family, params):
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="candidates and draws must be at least 1"):
        resampled_draws(Skewed(), family, params, 0, 10, rng)
    with pytest.raises(FloatingPointError, match="none of 5 candidates"):
        resampled_draws(Skewed(wall=np.inf), family, params, 5, 10, rng)
