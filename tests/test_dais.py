"""Annealed trajectories against the paper's equations, their gradient against differences, E[w] = Z."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from densities import Normal, Skewed, central_difference

from dais_stan.families import FullRank, MeanField
from dais_stan.objectives.annealing import PARTS, AnnealingParameters
from dais_stan.objectives.dais import bound_gradient, forward, noise_shape
from dais_stan.target import Target
from dais_stan.whitening import WhitenedTarget, Whitening

PROGRAMS = Path(__file__).with_name("stan")
SHIPPED = Path(__file__).parents[1] / "stan_models"
FAMILIES = [MeanField, FullRank]


def stan_target(name: str) -> Target:
    """Programs whose posteriors are skewed, correlated or constrained; the interpreter is exact and quick."""
    folder, data = {
        "skewed_correlated": (PROGRAMS, {"shape": 2.5, "rate": 1.5}),
        "banana": (SHIPPED, None),
        "eight_schools_centered": (SHIPPED, SHIPPED / "eight_schools_centered.data.json"),
    }[name]
    return Target.from_stan(folder / f"{name}.stan", data=data, engine="stanli")


def a_start(parameters: AnnealingParameters, seed: int = 3) -> np.ndarray:
    """Parameters away from any symmetry, with steps small enough for a stable trajectory."""
    rng = np.random.default_rng(seed)
    params = parameters.initial(step=0.25, retention=0.6) + 0.2 * rng.standard_normal(parameters.n_params)
    parameters.part(params, "mass")[:] += 0.5
    return params


def some_noise(transitions: int, particles: int, dim: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(noise_shape(transitions, particles, dim))


def gradient_and_difference(density, parameters, params, noise, groups):
    def bound(p):
        return bound_gradient(density, parameters.unpack(p), noise, groups).bound

    path = parameters.unpack(params)
    pulled = parameters.pullback(params, path, bound_gradient(density, path, noise, groups).gradient)
    # A fourth-order rule: a second-order one is no better than 1e-6 where curvature is strong.
    coarse, fine = (central_difference(bound, params, step) for step in (2e-4, 1e-4))
    return pulled, (4.0 * fine - coarse) / 3.0


def assert_gradient(pulled, expected, tolerance):
    """Each entry to ``tolerance`` of itself, or where it is nearly nothing, of the gradient's size."""
    np.testing.assert_allclose(pulled, expected, rtol=tolerance, atol=tolerance * np.abs(expected).max())


def the_papers_trajectory(density, mean, sd, delta, mass, betas, retention, noise):
    """Log weight of one particle, line by line as published, in the target's own coordinates."""
    z = mean + sd * noise[0]
    v = np.sqrt(mass) * noise[1]
    log_w = -(-0.5 * noise[0] @ noise[0] - np.log(sd).sum() - 0.5 * len(mean) * np.log(2 * np.pi))
    for k in range(len(delta)):
        middle = z + 0.5 * delta[k] * v / mass
        gradient = density.log_density_gradient(middle[None])[1][0]
        bridge = betas[k] * gradient - (1 - betas[k]) * (middle - mean) / sd**2
        kicked = v + delta[k] * bridge
        z = middle + 0.5 * delta[k] * kicked / mass
        log_w += -0.5 * ((kicked**2 - v**2) / mass).sum()
        if k + 1 < len(delta):
            v = retention * kicked + np.sqrt(1 - retention**2) * np.sqrt(mass) * noise[k + 2]
    return log_w + density.log_density_gradient(z[None])[0][0], z


@pytest.mark.parametrize("units", ["q0", "target"])
def test_forward_is_the_papers_trajectory(units):
    density, family, transitions = Skewed(), MeanField(3), 5
    parameters = AnnealingParameters(family, transitions, units=units)
    params = a_start(parameters)
    path = parameters.unpack(params)
    noise = some_noise(transitions, 4, 3)
    found = forward(density, path, noise)
    delta, mass = np.exp(parameters.part(params, "steps")), np.exp(parameters.part(params, "mass"))
    if units == "q0":
        mass = mass / path.factor**2
    for i in range(4):
        log_w, z = the_papers_trajectory(
            density, path.mean, path.factor, delta, mass, path.betas, path.retention, noise[:, i]
        )
        assert found.log_weight[i] == pytest.approx(log_w, rel=1e-12)
        np.testing.assert_allclose(found.z[i], z, rtol=1e-11)


def test_full_rank_with_a_diagonal_factor_is_mean_field():
    density, noise = Skewed(), some_noise(4, 3, 3)
    mean_field = AnnealingParameters(MeanField(3), 4)
    params = a_start(mean_field)
    path = mean_field.unpack(params)
    dense = path._replace(factor=np.diag(path.factor))
    np.testing.assert_allclose(
        forward(density, dense, noise).log_weight, forward(density, path, noise).log_weight, rtol=1e-13
    )


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("mass", ["diagonal", "scaled"])
@pytest.mark.parametrize("particles", [1, 4])
@pytest.mark.parametrize("transitions", [1, 2, 7])
def test_gradient_with_exact_hessian_products(family, mass, particles, transitions):
    parameters = AnnealingParameters(family(3), transitions, mass)
    noise = some_noise(transitions, 2 * particles, 3)
    pulled, expected = gradient_and_difference(Skewed(), parameters, a_start(parameters), noise, groups=2)
    assert_gradient(pulled, expected, 1e-8)


@pytest.mark.parametrize("transitions", [1, 2, 7])
def test_gradient_with_steps_in_the_targets_units(transitions):
    parameters = AnnealingParameters(MeanField(3), transitions, units="target")
    noise = some_noise(transitions, 4, 3)
    pulled, expected = gradient_and_difference(Skewed(), parameters, a_start(parameters), noise, groups=1)
    assert_gradient(pulled, expected, 1e-8)


@pytest.mark.parametrize("name", ["skewed_correlated", "banana", "eight_schools_centered"])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("particles", [1, 4])
@pytest.mark.parametrize("transitions", [1, 2, 7])
def test_gradient_on_stan_programs_with_difference_products(name, family, particles, transitions):
    target = stan_target(name)
    assert not target.has_hvp
    parameters = AnnealingParameters(family(target.dim), transitions)
    noise = some_noise(transitions, particles, target.dim)
    pulled, expected = gradient_and_difference(target, parameters, a_start(parameters), noise, groups=1)
    assert_gradient(pulled, expected, 1e-6)


def test_gradient_in_whitened_coordinates():
    target = stan_target("skewed_correlated")
    scale = np.array([[0.7, 0.0, 0.0], [0.3, 1.2, 0.0], [-0.2, 0.4, 0.5]])
    density = WhitenedTarget(target, Whitening(np.array([0.2, -0.1, 0.3]), scale))
    parameters = AnnealingParameters(FullRank(3), 3)
    pulled, expected = gradient_and_difference(
        density, parameters, a_start(parameters), some_noise(3, 4, 3), groups=1
    )
    assert_gradient(pulled, expected, 1e-6)


def test_central_and_one_sided_products_give_one_gradient():
    """The one-sided rule costs one gradient a product, not two, and loses nothing that matters."""

    class Central:
        def __init__(self, target):
            self.dim, self.target = target.dim, target
            self.log_density_gradient = target.log_density_gradient

        def hvp(self, z, v, gradient=None):
            return self.target.hvp(z, v)

    target = stan_target("eight_schools_centered")
    path = AnnealingParameters(MeanField(target.dim), 7)
    path = path.unpack(a_start(path))
    noise = some_noise(7, 4, target.dim)
    before = target.counts.gradient
    one_sided = bound_gradient(target, path, noise, 1).gradient
    cost_one_sided, before = target.counts.gradient - before, target.counts.gradient
    central = bound_gradient(Central(target), path, noise, 1).gradient
    assert (cost_one_sided, target.counts.gradient - before) == (4 * (2 * 7 + 1), 4 * (3 * 7 + 1))
    for a, b in zip(one_sided, central, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6 * np.abs(b).max())


@pytest.mark.parametrize("part", PARTS)
def test_a_fixed_part_has_no_gradient_and_the_others_keep_theirs(part):
    noise = some_noise(3, 4, 3)
    gradients = []
    for learn in (PARTS, [p for p in PARTS if p != part]):
        parameters = AnnealingParameters(MeanField(3), 3, learn=learn)
        params = a_start(parameters)
        path = parameters.unpack(params)
        gradients.append(parameters.pullback(params, path, bound_gradient(Skewed(), path, noise, 1).gradient))
    fixed = parameters.part(gradients[1], part)
    assert not fixed.any() and parameters.part(gradients[0], part).any()
    fixed[:] = parameters.part(gradients[0], part)
    np.testing.assert_array_equal(gradients[0], gradients[1])


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("transitions", [1, 5])
def test_the_mean_weight_is_the_evidence(family, transitions):
    """Unbiased whatever q0, the steps and the bridge are: within 3 standard errors on a Gaussian."""
    log_z = -0.4
    density = Normal([0.6, -0.4, 0.3], [[0.8, 0.3, 0.0], [0.3, 0.9, -0.2], [0.0, -0.2, 0.6]], log_z)
    parameters = AnnealingParameters(family(3), transitions)
    path = parameters.unpack(a_start(parameters))
    log_weight = forward(density, path, some_noise(transitions, 100_000, 3)).log_weight
    weight = np.exp(log_weight - log_z)
    se = weight.std() / np.sqrt(len(weight))
    assert abs(weight.mean() - 1.0) < 3 * se
    assert 0.01 > se > 1e-4 and log_weight.mean() < log_z - 0.01  # q0 is wrong, and the test can tell


def test_a_wall_on_the_way_leaves_the_evidence_unbiased():
    """Half of a normal: where the gradient is not finite it counts as zero, which biases nothing."""

    class Half(Normal):
        def log_density_gradient(self, z):
            value, gradient = super().log_density_gradient(z)
            outside = z[:, 0] < 0
            return np.where(outside, -np.inf, value), np.where(outside[:, None], 0.0, gradient)

    parameters = AnnealingParameters(MeanField(2), 4)
    path = parameters.unpack(parameters.initial(step=0.4))
    end = forward(Half(np.zeros(2), 0.8 * np.eye(2)), path, some_noise(4, 100_000, 2))
    weight = np.exp(end.log_weight)
    assert 0.05 < np.mean(weight == 0) < 0.6
    assert abs(weight.mean() - 0.5) < 3 * weight.std() / np.sqrt(len(weight))


def test_a_trajectory_that_overflows_has_no_weight_and_does_no_harm():
    parameters = AnnealingParameters(MeanField(3), 6)
    params = parameters.initial(step=0.3)
    path, noise = parameters.unpack(params), some_noise(6, 4, 3)
    noise[0, 1] = 60.0  # exp(60) and then the next gradient overflow
    result = bound_gradient(Skewed(), path, noise, 1)
    rest = bound_gradient(Skewed(), path, noise[:, [0, 2, 3]], 1)
    assert result.rejected == 1
    assert result.bound == pytest.approx(rest.bound + np.log(3 / 4), rel=1e-13)
    for a, b in zip(result.gradient, rest.gradient, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11)


def test_no_usable_trajectory_gives_minus_infinity_and_no_gradient():
    parameters = AnnealingParameters(FullRank(3), 2)
    result = bound_gradient(Skewed(np.inf), parameters.unpack(parameters.initial()), some_noise(2, 4, 3), 2)
    assert (result.bound, result.rejected) == (-np.inf, 4)
    assert not any(np.any(part) for part in result.gradient)


def test_betas_rise_to_one_and_retention_stays_within_its_bounds():
    parameters = AnnealingParameters(MeanField(2), 16)
    params = parameters.initial(retention=0.7)
    assert parameters.unpack(params).retention == pytest.approx(0.7)
    np.testing.assert_allclose(parameters.unpack(params).betas, np.arange(1, 17) / 16)
    params = 30.0 * np.random.default_rng(0).standard_normal(parameters.n_params)
    path = parameters.unpack(params)
    assert (np.diff(path.betas) >= 0).all() and path.betas[-1] == 1.0
    assert 0.01 <= path.retention <= 0.99


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"transitions": 0}, "transitions must be at least 1"),
        ({"mass": "dense"}, "mass must be"),
        ({"units": "metres"}, "units must be"),
        ({"learn": ["beta"]}, "learn must name"),
        ({"units": "target", "family": FullRank(2)}, "need a mean-field q0"),
    ],
)
def test_arguments_out_of_range_are_named(change, message):
    with pytest.raises(ValueError, match=message):
        AnnealingParameters(**({"family": MeanField(2), "transitions": 3} | change))
