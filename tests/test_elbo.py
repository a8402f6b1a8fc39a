"""The ELBO's value and gradient, with and without the score term, on a skewed correlated density."""

import numpy as np
import pytest
from densities import Skewed, central_difference

from dais_stan.objectives.elbo import elbo

DIM = 3


def test_gradient_with_the_score_is_that_of_the_value(family, params):
    eps = np.random.default_rng(1).standard_normal((5, DIM))
    density = Skewed()
    estimate = elbo(density, family, params, eps, stick_the_landing=False)
    expected = central_difference(lambda p: elbo(density, family, p, eps).value, params)
    np.testing.assert_allclose(estimate.gradient, expected, rtol=1e-6, atol=1e-7)


def test_sticking_the_landing_leaves_the_expectation(family, params):
    """Means of the two gradients over the same noise differ by no more than 4 of their standard errors."""
    density, rng = Skewed(), np.random.default_rng(2)
    difference = []
    for _ in range(400):
        eps = rng.standard_normal((16, DIM))
        full = elbo(density, family, params, eps, stick_the_landing=False).gradient
        difference.append(full - elbo(density, family, params, eps, stick_the_landing=True).gradient)
    difference = np.array(difference)
    se = difference.std(axis=0) / np.sqrt(len(difference))
    assert (np.abs(difference.mean(axis=0)) < 4 * se + 1e-12).all()
    assert se.max() > 1e-4  # they are two estimators, not one


def test_sticking_the_landing_has_no_variance_at_the_posterior(family):
    class StandardNormal:
        dim = DIM

        def log_density_gradient(self, z):
            return -0.5 * (z**2).sum(axis=1), -z

    eps = np.random.default_rng(3).standard_normal((4, DIM))
    gradient = elbo(StandardNormal(), family, family.initial(), eps).gradient
    np.testing.assert_allclose(gradient, 0.0, atol=1e-14)


@pytest.mark.parametrize("stick", [True, False])
def test_rejected_draws_are_left_out_and_counted(family, params, stick):
    eps = np.random.default_rng(4).standard_normal((40, DIM))
    wall = 0.2
    inside = family.sample(params, eps).z[:, 0] >= wall
    assert 0 < inside.sum() < 40
    estimate = elbo(Skewed(wall), family, params, eps, stick)
    reference = elbo(Skewed(), family, params, eps[inside], stick)
    assert estimate.rejected == 40 - inside.sum()
    assert estimate.value == pytest.approx(reference.value, rel=1e-12)
    np.testing.assert_allclose(estimate.gradient, reference.gradient, rtol=1e-10, atol=1e-12)


def test_no_usable_draw_gives_minus_infinity_and_no_gradient(family, params):
    estimate = elbo(Skewed(wall=np.inf), family, params, np.ones((3, DIM)))
    assert (estimate.value, estimate.rejected) == (-np.inf, 3)
    assert not estimate.gradient.any()
