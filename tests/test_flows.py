"""Every flow: inverse, log determinant, pullback and carried gradient against numerical derivatives."""

import numpy as np
import pytest

from dais_stan.errors import FlowError
from dais_stan.families.flows import (
    IAF,
    Chain,
    FlowParams,
    HouseholderSylvester,
    OrthogonalSylvester,
    Planar,
    TriangularSylvester,
)
from dais_stan.families.flows.monotone import solve_monotone

DIMS = [1, 2, 8, 64]
FLOWS = {
    "planar": Planar,
    "iaf": lambda dim: IAF(dim, 2 * dim + 3),
    "iaf reversed": lambda dim: IAF(dim, dim + 1, reverse=True),
    "o-sylvester, one column": lambda dim: OrthogonalSylvester(dim, 1),
    "o-sylvester, some columns": lambda dim: OrthogonalSylvester(dim, (dim + 1) // 2),
    "o-sylvester, all columns": lambda dim: OrthogonalSylvester(dim, dim),
    "h-sylvester": lambda dim: HouseholderSylvester(dim, 3),
    "t-sylvester": TriangularSylvester,
    "t-sylvester reversed": lambda dim: TriangularSylvester(dim, reverse=True),
    "chain": lambda dim: Chain(
        dim,
        [OrthogonalSylvester(dim, min(dim, 3)), IAF(dim, dim, True), Planar(dim), TriangularSylvester(dim)],
    ),
}
H = 1e-6


@pytest.fixture
def rng():
    return np.random.default_rng(20240817)


def random_params(flow, rng, rows=None, scale=0.7):
    start = flow.initial(rng)
    shape = start.own.shape if rows is None else (rows, *start.own.shape)
    # Large networks stay as wild as small ones when their weights shrink with the width.
    shared = start.shared + scale * rng.standard_normal(start.shared.shape) / np.sqrt(flow.dim)
    return FlowParams(start.own + scale * rng.standard_normal(shape) / np.sqrt(flow.dim), shared)


def jacobian(flow, params, point):
    """Numerical Jacobian (D, D) at one point."""
    moves = H * np.eye(flow.dim)
    up = flow.forward(flow.prepare(params), point + moves).z
    return ((up - flow.forward(flow.prepare(params), point - moves).z) / (2 * H)).T


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("kind", FLOWS)
class TestEveryFlow:
    def test_inverse_undoes_forward(self, kind, dim, rng):
        flow = FLOWS[kind](dim)
        params, z = random_params(flow, rng), 2.0 * rng.standard_normal((9, dim))
        passed = flow.forward(flow.prepare(params), z)
        back, log_det = flow.inverse(flow.prepare(params), passed.z)
        np.testing.assert_allclose(back, z, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(log_det, -passed.log_det, rtol=1e-6, atol=1e-6)

    def test_log_det_is_that_of_the_numerical_jacobian(self, kind, dim, rng):
        flow = FLOWS[kind](dim)
        params, z = random_params(flow, rng), rng.standard_normal((3, dim))
        log_det = flow.forward(flow.prepare(params), z).log_det
        for point, value in zip(z, log_det, strict=True):
            sign, expected = np.linalg.slogdet(jacobian(flow, params, point))
            assert sign > 0
            np.testing.assert_allclose(value, expected, rtol=1e-6, atol=1e-6)

    @pytest.mark.parametrize("rows", [None, 4])
    def test_pullback_is_the_gradient(self, kind, dim, rows, rng):
        """Along random directions in the points and parameters, the log determinant's part included."""
        flow = FLOWS[kind](dim)
        params, z = random_params(flow, rng, rows), rng.standard_normal((4, dim))
        z_bar, log_det_bar = rng.standard_normal((4, dim)), rng.standard_normal(4)

        def scalar(own, shared, points):
            passed = flow.forward(flow.prepare(FlowParams(own, shared)), points)
            return (z_bar * passed.z).sum() + (log_det_bar * passed.log_det).sum()

        tape = flow.forward(flow.prepare(params), z).tape
        points_bar, bar = flow.pullback(flow.prepare(params), tape, z_bar, log_det_bar)
        assert bar.own.shape == params.own.shape and bar.shared.shape == params.shared.shape
        for _ in range(5):
            own, shared, points = (rng.standard_normal(part.shape) for part in (*params, z))
            up = scalar(params.own + H * own, params.shared + H * shared, z + H * points)
            down = scalar(params.own - H * own, params.shared - H * shared, z - H * points)
            found = (bar.own * own).sum() + (bar.shared * shared).sum() + (points_bar * points).sum()
            np.testing.assert_allclose(found, (up - down) / (2 * H), rtol=2e-6, atol=1e-6)

    @pytest.mark.parametrize("rows", [None, 3])
    def test_carried_gradient_is_that_of_the_image(self, kind, dim, rows, rng):
        """The log density of the image is that before the flow, here k . sin(z), less log_det."""
        flow = FLOWS[kind](dim)
        params, z, k = random_params(flow, rng, rows), rng.standard_normal((3, dim)), np.arange(1.0, dim + 1)
        passed = flow.forward(flow.prepare(params), z)
        found = flow.carry(flow.prepare(params), passed.tape, k * np.cos(z))

        def log_density(images):
            before, log_det = flow.inverse(flow.prepare(params), images)
            return np.sin(before) @ k + log_det

        for direction in rng.standard_normal((3, dim)):
            expected = log_density(passed.z + H * direction) - log_density(passed.z - H * direction)
            np.testing.assert_allclose(found @ direction, expected / (2 * H), rtol=1e-4, atol=1e-4)

    def test_an_imaginary_step_gives_the_directional_derivative(self, kind, dim, rng):
        flow = FLOWS[kind](dim)
        params, z, v = random_params(flow, rng), rng.standard_normal((2, dim)), rng.standard_normal((2, dim))
        passed = flow.forward(flow.prepare(params), z + 1e-30j * v)
        expected = [jacobian(flow, params, point) @ way for point, way in zip(z, v, strict=True)]
        np.testing.assert_allclose(passed.z.imag / 1e-30, expected, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(
            passed.z.real, flow.forward(flow.prepare(params), z).z, rtol=1e-12, atol=1e-12
        )

    @pytest.mark.parametrize("scale", [1e-8, 30.0, 1e4])
    def test_extreme_parameters_still_give_an_invertible_map(self, kind, dim, scale, rng):
        flow = FLOWS[kind](dim)
        params = FlowParams(*(scale * rng.standard_normal(part.shape) for part in flow.initial(rng)))
        z = rng.standard_normal((5, dim))
        passed = flow.forward(flow.prepare(params), z)
        assert np.isfinite(passed.z).all() and np.isfinite(passed.log_det).all()
        assert all(
            np.isfinite(part).all()
            for part in _flat(flow.pullback(flow.prepare(params), passed.tape, z, z[:, 0]))
        )
        again = flow.forward(flow.prepare(params), flow.inverse(flow.prepare(params), passed.z)[0]).z
        np.testing.assert_allclose(again, passed.z, atol=1e-6 * (1.0 + np.abs(passed.z).max()))

    def test_starts_as_the_identity_without_being_a_saddle(self, kind, dim, rng):
        flow = FLOWS[kind](dim)
        params, z = flow.initial(rng), rng.standard_normal((4, dim))
        passed = flow.forward(flow.prepare(params), z)
        np.testing.assert_allclose(passed.z, z, atol=1e-12)
        np.testing.assert_allclose(passed.log_det, 0.0, atol=1e-12)
        bar = flow.pullback(flow.prepare(params), passed.tape, np.cos(z), np.ones(4))[1]
        assert max(np.abs(part).max(initial=0.0) for part in bar) > 1e-2


def _flat(pulled):
    points_bar, bar = pulled
    return points_bar, bar.own, bar.shared


@pytest.mark.parametrize("kind", FLOWS)
def test_rows_with_the_same_parameters_are_moved_as_by_shared_ones(kind, rng):
    flow = FLOWS[kind](5)
    params, z = random_params(flow, rng), rng.standard_normal((6, 5))
    rows = params._replace(own=np.tile(params.own, (6, 1)))
    np.testing.assert_allclose(
        flow.forward(flow.prepare(rows), z).z, flow.forward(flow.prepare(params), z).z, rtol=1e-12
    )
    np.testing.assert_allclose(
        flow.inverse(flow.prepare(rows), z)[0], flow.inverse(flow.prepare(params), z)[0], rtol=1e-9
    )


def test_columns_without_full_rank_are_reported():
    flow = OrthogonalSylvester(6, 3)
    own = flow.initial(np.random.default_rng(1)).own
    own[:18] = np.repeat(np.arange(6.0), 3)  # three equal columns
    with pytest.raises(
        FlowError, match=r"not orthonormal after 100 steps .* 6 x 3 matrix must have full rank"
    ):
        flow.prepare(FlowParams(own, np.empty(0)))


@pytest.mark.parametrize("columns", [0, 4])
def test_columns_out_of_range_are_refused(columns):
    with pytest.raises(ValueError, match=f"columns must be from 1 to the dimension 3, found {columns}"):
        OrthogonalSylvester(3, columns)


def test_flows_of_different_dimensions_are_refused():
    with pytest.raises(ValueError, match=r"dimension 3, found \[3, 2\]"):
        Chain(3, [Planar(3), Planar(2)])


def test_monotone_equation_is_solved_where_it_is_nearly_flat(rng):
    target, height, shift = 5 * rng.standard_normal((3, 400))
    slope = -0.999 / height  # the steepest fold that is allowed
    v = solve_monotone(target, height, slope, shift)
    np.testing.assert_allclose(v + height * np.tanh(slope * v + shift), target, rtol=1e-12, atol=1e-12)
