"""Annealing from a flow: derivatives of the pulled-back density, the bound's gradient, and its evidence."""

import numpy as np
import pytest
from densities import Normal, Skewed, central_difference

import dais_stan as ds
from dais_stan.families import FLOWS, FlowFamily
from dais_stan.methods import make_method
from dais_stan.objectives.annealing import AnnealingParameters
from dais_stan.objectives.dais import forward, group_shares, noise_shape
from dais_stan.objectives.flow_annealing import PulledBack, flow_bound_gradient
from dais_stan.whitening import WhitenedTarget, Whitening

H = 1e-6


@pytest.fixture
def rng():
    return np.random.default_rng(20240911)


def some_flow(kind, dim, rng):
    family = FlowFamily(kind, dim, flows=2)
    params = family.initial() + 0.3 * rng.standard_normal(family.n_params)
    return family, params


@pytest.mark.parametrize("kind", FLOWS)
class TestPulledBackDensity:
    def test_gradient(self, kind, rng):
        family, params = some_flow(kind, 3, rng)
        density, u = PulledBack(Skewed(), family, params), 0.5 * rng.standard_normal((4, 3))
        found = density.log_density_gradient(u)[1]
        for point, gradient in zip(u, found, strict=True):
            expected = central_difference(lambda x: density.log_density_gradient(x[None])[0][0], point)
            np.testing.assert_allclose(gradient, expected, rtol=1e-6, atol=1e-6)

    def test_hessian_product_and_its_part_in_the_flows_parameters(self, kind, rng):
        family, params = some_flow(kind, 3, rng)
        u, v = 0.5 * rng.standard_normal((4, 3)), rng.standard_normal((4, 3))
        density = PulledBack(Skewed(), family, params)
        gradient = density.log_density_gradient(u)[1]
        for known in (None, gradient):
            density.params_bar[:] = 0.0
            up, down = (density.log_density_gradient(u + step * v)[1] for step in (H, -H))
            np.testing.assert_allclose(density.hvp(u, v, known), (up - down) / (2 * H), rtol=1e-5, atol=1e-6)

            def mixed(flat):
                moved = np.concatenate((params[: family.base.n_params], flat))
                return (v * PulledBack(Skewed(), family, moved).log_density_gradient(u)[1]).sum()

            flat = params[family.base.n_params :]
            ways = rng.standard_normal((3, len(flat)))
            expected = [(mixed(flat + H * way) - mixed(flat - H * way)) / (2 * H) for way in ways]
            np.testing.assert_allclose(ways @ density.params_bar, expected, rtol=1e-5, atol=1e-5)

    @pytest.mark.parametrize("transitions", [1, 4])
    def test_gradient_of_the_bound(self, kind, transitions, rng):
        """In every parameter of q0, base and flow, and of the annealing."""
        family, params = some_flow(kind, 3, rng)
        parameters = AnnealingParameters(family.base, transitions)
        annealing = parameters.initial(step=0.3) + 0.1 * rng.standard_normal(parameters.n_params)
        flat = np.concatenate((annealing, params[family.base.n_params :]))
        noise = 0.7 * rng.standard_normal(noise_shape(transitions, 4, 3))

        def bound(vector):
            path = parameters.unpack(vector[: parameters.n_params])
            flow = np.concatenate((params[: family.base.n_params], vector[parameters.n_params :]))
            return path, flow_bound_gradient(PulledBack(Skewed(), family, flow), path, noise, groups=2)

        path, (found, flow_bar) = bound(flat)
        gradient = np.concatenate((parameters.pullback(annealing, path, found.gradient), flow_bar))
        for way in rng.standard_normal((4, len(flat))):
            expected = (bound(flat + H * way)[1][0].bound - bound(flat - H * way)[1][0].bound) / (2 * H)
            np.testing.assert_allclose(gradient @ way, expected, rtol=1e-6, atol=1e-6)


def test_the_mean_weight_is_the_evidence(rng):
    """Unbiased whatever the flow, within 3 standard errors on a Gaussian."""
    log_z = -0.4
    density = Normal([0.6, -0.4, 0.3], [[0.8, 0.3, 0.0], [0.3, 0.9, -0.2], [0.0, -0.2, 0.6]], log_z)
    family, params = some_flow("o-sylvester", 3, rng)
    parameters = AnnealingParameters(family.base, 3)
    path, noise = (
        parameters.unpack(parameters.initial(step=0.3)),
        rng.standard_normal(noise_shape(3, 100_000, 3)),
    )
    weight = np.exp(forward(PulledBack(density, family, params), path, noise).log_weight - log_z)
    se = weight.std() / np.sqrt(len(weight))
    assert abs(weight.mean() - 1.0) < 3 * se < 0.1


@pytest.mark.parametrize("kind", FLOWS)
def test_a_bound_without_any_weight_has_no_gradient(kind, rng):
    family, params = some_flow(kind, 3, rng)
    parameters = AnnealingParameters(family.base, 2)
    noise = rng.standard_normal(noise_shape(2, 4, 3))
    pulled = PulledBack(Skewed(wall=np.inf), family, params)
    found, flow_bar = flow_bound_gradient(pulled, parameters.unpack(parameters.initial()), noise, groups=2)
    assert found.bound == -np.inf and found.rejected == 4
    assert not flow_bar.any() and not any(np.any(part) for part in found.gradient)


def test_a_warm_start_from_a_flow_has_steps_for_the_curvature_that_is_left():
    """Two stiff directions, of which one planar flow straightens one: the first step tried is unstable."""
    block = 0.01 * np.eye(32) + 0.99
    precision = np.block([[block, np.zeros((32, 32))], [np.zeros((32, 32)), block]])
    density = Normal(np.zeros(64), np.linalg.inv(precision))
    target = ds.Target.from_functions(density.log_density_gradient, 64, hvp=density.hvp)
    method = make_method("dais0", family="planar", flows=1)
    whitened = WhitenedTarget(target, Whitening(np.zeros(64), np.ones(64)))
    objective = method.objective(whitened, FlowFamily("planar", 64, flows=1))
    start = objective.initial(np.random.default_rng(1))
    path, pulled = objective.path(start), PulledBack(whitened, method.make_family(64), objective.q(start))
    noise = np.random.default_rng(2).standard_normal(noise_shape(16, 256, 64))
    mean_field = 0.5 * np.linalg.slogdet(precision)[1] - 0.5 * np.log(np.diag(precision)).sum()
    assert group_shares(forward(pulled, path, noise), 16)[0] > mean_field
    long = path._replace(steps=np.full_like(path.steps, method.step))
    assert group_shares(forward(pulled, long, noise), 16)[0] < -1e3
