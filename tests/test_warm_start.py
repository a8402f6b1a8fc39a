"""Where annealed methods start: the curvature around q, the widened q0, bridges of even stiffness."""

import numpy as np
import pytest
from densities import Normal, Skewed, central_difference

import dais_stan as ds
from dais_stan.families import FullRank, MeanField
from dais_stan.methods import make_method
from dais_stan.methods.warm_start import curvature, largest_curvature
from dais_stan.objectives.annealing import AnnealingParameters
from dais_stan.whitening import WhitenedTarget, Whitening

MEAN = np.array([0.5, -1.0, 2.0])
COVARIANCE = np.array([[1.0, 0.9, 0.3], [0.9, 1.0, 0.2], [0.3, 0.2, 0.5]])
MARGINAL = np.sqrt(np.diag(COVARIANCE))
CONDITIONAL = 1 / np.sqrt(np.diag(np.linalg.inv(COVARIANCE)))


@pytest.mark.parametrize("dense", [True, False])
def test_the_curvature_of_a_gaussian_is_its_precision(dense):
    factor = np.linalg.cholesky(COVARIANCE + np.eye(3)) if dense else np.array([0.3, 1.0, 2.0])
    found = curvature(Normal(MEAN, COVARIANCE), MEAN, factor, np.random.default_rng(1))
    full = factor if dense else np.diag(factor)
    np.testing.assert_allclose(found, full.T @ np.linalg.inv(COVARIANCE) @ full, rtol=1e-10)


def test_the_curvature_is_the_mean_hessian_over_q():
    """Within 5 standard errors of a large sample's, by differences of the gradient."""
    density, factor = Skewed(), np.array([0.3, 0.2, 0.4])
    mean = np.array([0.1, 0.2, -0.1])
    found = np.array([curvature(density, mean, factor, np.random.default_rng(i)) for i in range(200)])
    points = mean + factor * np.random.default_rng(7).standard_normal((2000, 3))

    def mean_gradient(shift):
        return density.log_density_gradient(points + shift)[1].mean(axis=0)

    hessian = np.array(
        [central_difference(lambda shift, i=i: mean_gradient(shift)[i], np.zeros(3)) for i in range(3)]
    )
    expected = -hessian * np.outer(factor, factor)
    se = found.std(axis=0) / np.sqrt(len(found)) + 0.02 * np.abs(expected)
    assert (np.abs(found.mean(axis=0) - expected) < 5 * se + 1e-6).all()


@pytest.mark.parametrize("dense", [True, False])
def test_the_largest_curvature_is_found_to_a_tenth(dense):
    rng = np.random.default_rng(3)
    mix = rng.standard_normal((40, 40)) / 6
    covariance = mix @ mix.T + 0.1 * np.eye(40)
    factor = np.linalg.cholesky(covariance + 0.1 * np.eye(40)) if dense else rng.uniform(0.5, 2.0, 40)
    full = factor if dense else np.diag(factor)
    expected = np.linalg.eigvalsh(full.T @ np.linalg.inv(covariance) @ full)[-1]
    found = largest_curvature(Normal(np.zeros(40), covariance), np.ones(40), factor, rng)
    assert found == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize("stiffness", [1.0, 2.0, 400.0])
def test_bridges_stiffen_by_one_factor(stiffness):
    parameters = AnnealingParameters(MeanField(3), 8)
    path = parameters.unpack(parameters.initial(step=0.7, stiffness=stiffness))
    bridges = 1 + np.concatenate(([0.0], path.betas)) * (stiffness - 1)
    np.testing.assert_allclose(bridges[1:] / bridges[:-1], stiffness ** (1 / 8), rtol=1e-5)
    np.testing.assert_allclose(path.steps[:, 0], 0.7 / np.sqrt(bridges[1:]), rtol=1e-5)


def start_of(family: str, particles: int, transitions: int):
    """Standard deviations (or the factor) of q0 on the target at the start."""
    density = Normal(MEAN, COVARIANCE)
    target = ds.Target.from_functions(density.log_density_gradient, 3, hvp=density.hvp)
    whitened = WhitenedTarget(target, Whitening(np.zeros(3), np.array([0.5, 1.0, 2.0])))
    method = make_method("dais0", family=family, particles=particles, transitions=transitions)
    objective = method.objective(whitened, {"meanfield": MeanField, "fullrank": FullRank}[family](3))
    path = objective.path(objective.initial(np.random.default_rng(1)))
    return whitened.whitening.affine(path.mean, path.factor)


def test_mean_field_starts_at_the_posteriors_own_standard_deviations():
    mean, sd = start_of("meanfield", 16, 16)
    np.testing.assert_allclose(mean, MEAN, atol=0.02)
    np.testing.assert_allclose(sd, MARGINAL, rtol=0.02)


def test_where_annealing_cannot_make_up_for_a_wide_start_it_is_a_narrow_one():
    sd = start_of("meanfield", 1, 1)[1]
    assert (sd < 0.9 * MARGINAL)[:2].all()


def test_in_many_dimensions_q0_stays_vis(monkeypatch):
    monkeypatch.setattr("dais_stan.methods.warm_start.MAX_DIM", 2)
    sd = start_of("meanfield", 16, 16)[1]
    np.testing.assert_allclose(sd, CONDITIONAL, rtol=0.02)


def test_full_rank_starts_at_vis_factor():
    factor = start_of("fullrank", 4, 4)[1]
    np.testing.assert_allclose(factor @ factor.T, COVARIANCE, atol=0.03)
