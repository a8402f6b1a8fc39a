"""psi's programs: against the density in NumPy, closed forms on Gaussians and the banana, and failures."""

from __future__ import annotations

import json
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import infmix
from dais_stan import resources
from dais_stan.engines.cmdstan import cmdstan_model
from dais_stan.engines.nuts import run_nuts
from dais_stan.engines.program import StanProgram
from dais_stan.errors import TargetError
from dais_stan.target import Target
from infmix.mixture import Mixture, chain_mean
from infmix.nodes import moment_matched_nodes
from infmix.psi import HEADER, KINDS, Guess, Psi
from infmix.sampling import make_psi, node_error

MODELS = resources.stan_models()
COVARIANCE = np.array([[1.0, 0.6, -0.3], [0.6, 0.8, 0.1], [-0.3, 0.1, 2.0]])
CENTRE = np.array([1.0, -2.0, 0.5])


@pytest.fixture(scope="module")
def gaussian() -> Target:
    data = {"D": 3, "m": CENTRE, "S": COVARIANCE}
    return Target.from_stan(MODELS / "gaussian.stan", data=data)


@pytest.fixture(scope="module")
def banana() -> Target:
    return Target.from_stan(MODELS / "banana.stan")


def within(values: NDArray, expected: NDArray) -> NDArray:
    """Distance of the mean of (chain, draw, ...) from its expectation, in standard errors."""
    found = chain_mean(values)
    return np.abs(found.value - expected) / np.where(found.se > 0, found.se, 1e-12)


def sampled(target: Target, lam: float, components: str = "meanfield", **options: object) -> Mixture:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # every one of these runs is to be without trouble
        return infmix.sample(target, lam, seed=7, nodes=8, components=components, **options)  # type: ignore[arg-type]


def covariance_values(mixture: Mixture, centre: NDArray) -> NDArray:
    """What each component adds to the mixture's covariance about ``centre``, (chain, draw, D, D)."""
    parts = mixture.components
    if parts.diagonal:
        within_each = np.stack([np.diag(sd**2) for sd in parts.scale])
    else:
        within_each = parts.scale @ parts.scale.swapaxes(1, 2)
    off = parts.location - centre
    total = within_each + off[:, :, None] * off[:, None, :]
    return total.reshape(*mixture.shape, *total.shape[1:])


@pytest.mark.parametrize("lam", [1.2, 2.0, 5.0, 20.0])
def test_gaussian_with_diagonal_components(gaussian: Target, lam: float) -> None:
    # Spec: mu ~ N(m, S / lambda), E sigma_i^2 = (lambda - 1) / (lambda P_ii), independent of mu.
    mixture = sampled(gaussian, lam, iter_sampling=1500)
    precision = np.diagonal(np.linalg.inv(COVARIANCE))
    expected = COVARIANCE / lam + np.diag((lam - 1.0) / (lam * precision))
    assert mixture.node_error < 1e-10
    assert np.all(within(mixture.theta["mu"], CENTRE) < 4)
    assert np.all(within(covariance_values(mixture, CENTRE), expected) < 4)
    off = mixture.theta["mu"] - CENTRE
    assert np.all(within(off[..., :, None] * off[..., None, :], COVARIANCE / lam) < 4)
    if lam >= 1.5:
        assert mixture.sampler.divergences == 0


def test_one_dimension_has_the_variance_of_the_target_at_every_lambda(gaussian: Target) -> None:
    target = Target.from_stan(MODELS / "gaussian.stan", data={"D": 1, "m": [2.0], "S": [[3.0]]})
    for lam in (2.0, 4.0):
        mixture = sampled(target, lam)
        assert np.all(within(covariance_values(mixture, np.array([2.0])), np.array([[3.0]])) < 4)


def test_gaussian_with_full_covariances(gaussian: Target) -> None:
    # L L' is Wishart distributed with lambda - 1 degrees of freedom and scale S / lambda, so that the
    # mixture's covariance is S / lambda + (lambda - 1) S / lambda = S.
    mixture = sampled(gaussian, 8.0, "fullrank", iter_sampling=1500)
    assert np.all(within(mixture.theta["mu"], CENTRE) < 4)
    assert np.all(within(covariance_values(mixture, CENTRE), COVARIANCE) < 4)


def test_gaussian_with_spherical_components(gaussian: Target) -> None:
    # (lambda / 2) tr(P) sigma^2 ~ Gamma(D (lambda - 1) / 2, 1).
    mixture = sampled(gaussian, 3.0, "isotropic", iter_sampling=1500)
    variance = 3 * (3.0 - 1.0) / (3.0 * np.trace(np.linalg.inv(COVARIANCE)))
    expected = COVARIANCE / 3.0 + variance * np.eye(3)
    assert np.all(within(covariance_values(mixture, CENTRE), expected) < 4)


@pytest.mark.parametrize("name", list(KINDS))
def test_the_program_s_density_and_gradient(banana: Target, name: str) -> None:
    kind, rng = KINDS[name], np.random.default_rng(3)
    guess = Guess(np.array([0.3, 0.4]), np.array([0.9, 0.5]))
    psi = make_psi(banana, kind, 3.5, guess, 16, 1, fresh=False)
    thetas = [_theta(name, rng) for _ in range(3)]
    densities, gradients = zip(*[_stan_density(psi, theta) for theta in thetas], strict=True)
    own = [psi.log_density({key: value[None] for key, value in theta.items()})[0] for theta in thetas]
    if name == "fullrank":  # Stan's density is in log L[i,i]
        own = [
            value + np.log(np.diagonal(theta["L"])).sum() for value, theta in zip(own, thetas, strict=True)
        ]
    np.testing.assert_allclose(np.diff(densities), np.diff(own), rtol=1e-9)
    for theta, gradient in zip(thetas, gradients, strict=True):
        np.testing.assert_allclose(gradient[:2], _difference_in_mu(psi, theta), rtol=1e-6, atol=1e-6)
        if name != "fullrank":
            np.testing.assert_allclose(gradient[2:], _difference_in_omega(psi, theta), rtol=1e-6, atol=1e-6)


def test_a_library_of_another_stan_than_psi_s_own() -> None:
    # stanli has an autodiff of its own in the same process: neither may see the other's symbols.
    other = Target.from_stan(MODELS / "banana.stan", engine="stanli")
    guess = Guess(np.array([0.3, 0.4]), np.array([0.9, 0.5]))
    psi = make_psi(other, KINDS["meanfield"], 3.5, guess, 16, 1, fresh=False)
    rng = np.random.default_rng(3)
    thetas = [_theta("meanfield", rng) for _ in range(3)]
    densities, gradients = zip(*[_stan_density(psi, theta) for theta in thetas], strict=True)
    own = [psi.log_density({key: value[None] for key, value in theta.items()})[0] for theta in thetas]
    np.testing.assert_allclose(np.diff(densities), np.diff(own), rtol=1e-9)
    for theta, gradient in zip(thetas, gradients, strict=True):
        np.testing.assert_allclose(gradient[:2], _difference_in_mu(psi, theta), rtol=1e-6, atol=1e-6)


def _theta(name: str, rng: np.random.Generator) -> dict[str, NDArray]:
    theta = {"mu": rng.standard_normal(2)}
    if name == "fullrank":
        theta["L"] = np.array([[0.7, 0.0], [0.4 * rng.standard_normal(), 0.3]])
    else:
        theta["omega"] = np.asarray(0.4 * rng.standard_normal(2 if name == "meanfield" else ()))
    return theta


def _stan_density(psi: Psi, theta: dict[str, NDArray]) -> tuple[float, NDArray]:
    """lp__ and the gradient of the compiled program, from CmdStan's log_prob."""
    model = cmdstan_model(StanProgram.from_file(MODELS / f"psi_{psi.kind.name}.stan"), HEADER)
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data.json"
        data.write_text(json.dumps(psi._data(Path(folder))))
        values = {name: value.tolist() for name, value in theta.items()}
        row = model.log_prob(values, data=str(data), jacobian=True, sig_figs=16).iloc[0].to_numpy(float)
    return float(row[0]), row[1:]


def _difference(psi: Psi, theta: dict[str, NDArray], name: str, index: tuple[int, ...]) -> float:
    def at(step: float) -> float:
        moved = {key: value[None].copy() for key, value in theta.items()}
        moved[name][(0, *index)] += step
        return float(psi.log_density(moved)[0])

    return (at(1e-5) - at(-1e-5)) / 2e-5


def _difference_in_mu(psi: Psi, theta: dict[str, NDArray]) -> list[float]:
    return [_difference(psi, theta, "mu", (i,)) for i in range(2)]


def _difference_in_omega(psi: Psi, theta: dict[str, NDArray]) -> list[float]:
    return [_difference(psi, theta, "omega", index) for index in np.ndindex(*theta["omega"].shape)]


def banana_psi(lam: float, mu: NDArray, omega: NDArray) -> NDArray:
    """Spec 5.6: E_q l in closed form, so psi without nodes, up to a constant."""
    (mx, my), (sx2, sy2) = mu.T, np.exp(2.0 * omega).T
    square = mx**2 + sx2
    fourth = mx**4 + 6.0 * mx**2 * sx2 + 3.0 * sx2**2
    expected = -fourth / 8.0 + my * square - 2.0 * (my**2 + sy2) - square / 4.0
    return (lam - 1.0) * omega.sum(axis=1) + lam * expected


def test_banana_by_nodes_and_in_closed_form(banana: Target) -> None:
    rng = np.random.default_rng(8)
    theta = {"mu": 0.7 * rng.standard_normal((50, 2)), "omega": -0.7 + 0.3 * rng.standard_normal((50, 2))}
    nodes = moment_matched_nodes(2**16, 2, seed=1)
    limits = np.full(2, -46.0), np.full(2, 46.0)
    psi = Psi(banana, KINDS["meanfield"], 2.0, nodes, *limits)
    difference = psi.log_density(theta) - banana_psi(2.0, **theta)
    assert np.ptp(difference) < 1e-3


def test_the_error_that_nodes_leave(banana: Target) -> None:
    rng = np.random.default_rng(4)
    theta = {"mu": rng.standard_normal((4, 50, 2)), "omega": -0.5 + 0.3 * rng.standard_normal((4, 50, 2))}
    guess = Guess(np.zeros(2), np.ones(2))
    few, many = (
        node_error(make_psi(banana, KINDS["meanfield"], 5.0, guess, count, 1, fresh=False), theta, seed=1)
        for count in (4, 1024)
    )
    assert few > 0.1 and 0.0 < many < 0.2 * few


CLOSED_BANANA = """
data { real<lower=1> lambda; }
parameters { vector[2] mu; vector[2] omega; }
model {
  real sx2 = exp(2 * omega[1]);
  real square = mu[1]^2 + sx2;
  real fourth = mu[1]^4 + 6 * mu[1]^2 * sx2 + 3 * sx2^2;
  target += (lambda - 1) * sum(omega);
  target += lambda * (-fourth / 8 + mu[2] * square - 2 * (mu[2]^2 + exp(2 * omega[2])) - square / 4);
}
"""


def test_nuts_on_the_banana_agrees_with_its_closed_form(banana: Target) -> None:
    run = run_nuts(
        cmdstan_model(StanProgram.from_code(CLOSED_BANANA)),
        json.dumps({"lambda": 2.0}),
        chains=4,
        seed=5,
        iter_warmup=1000,
        iter_sampling=1500,
        options={"adapt_delta": 0.9},
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        mixture = infmix.sample(banana, 2.0, nodes=64, seed=5, iter_sampling=1500)
    theta = np.concatenate((mixture.theta["mu"], mixture.theta["omega"]), axis=2)
    for values in (lambda x: x, lambda x: x**2):
        ours, closed = chain_mean(values(theta)), chain_mean(values(run.draws))
        assert np.all(np.abs(ours.value - closed.value) < 4 * np.hypot(ours.se, closed.se))


def test_fresh_nodes_leave_no_frozen_bias(gaussian: Target) -> None:
    # Eight plain nodes kept for the whole run shift mu by -sigma times their mean; fresh ones average out.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        mixture = infmix.sample(gaussian, 5.0, seed=3, nodes=8, fresh_nodes=True)
        again = infmix.sample(gaussian, 5.0, seed=3, nodes=8, fresh_nodes=True)
    np.testing.assert_array_equal(mixture.theta["mu"], again.theta["mu"])
    frozen_shift = np.abs(mixture.psi.nodes.mean(axis=0)) * np.exp(mixture.theta["omega"].mean())
    found = chain_mean(mixture.theta["mu"])
    assert np.all(np.abs(found.value - CENTRE) < 5 * found.se)
    assert np.any(frozen_shift > 8 * found.se)


THROWS = """
parameters { real x; real y; }
model {
  if (x > 1.5) reject("x is ", x, ", beyond the edge");
  x ~ normal(0, 1);
  y ~ normal(x, 1);
}
"""
OUTSIDE = """
parameters { real x; real y; }
model {
  target += normal_lpdf(x | 0, 1) + normal_lpdf(y | x, 1);
  if (x > 1.5) target += negative_infinity();
}
"""


@pytest.mark.parametrize(("code", "reason"), [(THROWS, "beyond the edge"), (OUTSIDE, "log density is -inf")])
def test_a_target_without_density_in_a_part_of_space(code: str, reason: str) -> None:
    target = Target.from_stan(stan_code=code)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        mixture = infmix.sample(target, 2.0, seed=2, nodes=16, iter_warmup=300, iter_sampling=300)
    assert mixture.rejected > 0
    assert reason in mixture.last_rejection
    reach = mixture.components.place(mixture.psi.nodes)[..., 0].max()
    assert reach <= 1.5  # no component has a node beyond the edge
    assert mixture.mean[0] < 0


def test_a_target_without_its_data_is_refused() -> None:
    with pytest.raises(TargetError, match='variable "S"'):
        Target.from_stan(MODELS / "gaussian.stan", data={"D": 3, "m": CENTRE})


def test_a_target_of_functions_is_refused() -> None:
    target = Target.from_functions(lambda z: (-0.5 * (z**2).sum(axis=1), -z), 2)
    with pytest.raises(ValueError, match="must be a Stan program"):
        infmix.sample(target, 2.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"lam": 0.9}, "lam must be at least 1"),
        ({"lam": float("nan")}, "lam must be at least 1"),
        ({"lam": 3.0, "components": "fullrank"}, "lam must be above D = 3"),
        ({"components": "spherical"}, "components must be one of"),
        ({"nodes": 5}, "nodes must be an even number of at least 2 D = 6"),
        ({"nodes": 0}, "nodes must be at least 1"),
        ({"chains": 0}, "chains"),
    ],
)
def test_bad_arguments(gaussian: Target, arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        infmix.sample(gaussian, seed=1, **arguments)  # type: ignore[arg-type]
