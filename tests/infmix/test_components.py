"""Nodes, components and functions of infmix: moments, densities, Fisher information, exact expectations."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import multivariate_normal

from infmix.components import Components
from infmix.functions import Coordinates, Sinusoids, Squares
from infmix.nodes import default_count, moment_matched_nodes, plain_nodes
from infmix.psi import KINDS


@pytest.fixture(params=["diagonal", "factor"])
def components(request: pytest.FixtureRequest) -> Components:
    """Five components in three dimensions."""
    rng = np.random.default_rng(5)
    location = rng.standard_normal((5, 3))
    if request.param == "diagonal":
        return Components(location, np.exp(0.5 * rng.standard_normal((5, 3))))
    factor = np.tril(rng.standard_normal((5, 3, 3)))
    factor[:, range(3), range(3)] = np.exp(0.5 * rng.standard_normal((5, 3)))
    return Components(location, factor)


def covariances(components: Components) -> NDArray:
    if components.diagonal:
        return np.stack([np.diag(sd**2) for sd in components.scale])
    return components.scale @ components.scale.swapaxes(1, 2)


@pytest.mark.parametrize(("count", "dim"), [(2, 1), (32, 3), (20, 10), (122, 61)])
def test_nodes_match_the_moments_of_a_normal(count: int, dim: int) -> None:
    nodes = moment_matched_nodes(count, dim, seed=3)
    assert nodes.shape == (count, dim)
    np.testing.assert_allclose(nodes.mean(axis=0), 0.0, atol=1e-13)
    np.testing.assert_allclose(nodes.T @ nodes / count, np.eye(dim), atol=1e-10)
    np.testing.assert_array_equal(nodes, moment_matched_nodes(count, dim, seed=3))
    assert not np.array_equal(nodes, moment_matched_nodes(count, dim, seed=4))


def test_nodes_are_nearer_than_plain_ones_beyond_the_moments() -> None:
    def error(make: object) -> float:
        found = [np.cos(make(64, 2, seed).sum(axis=1)).mean() for seed in range(40)]  # type: ignore[operator]
        return float(np.sqrt(np.mean((np.array(found) - np.exp(-1.0)) ** 2)))

    assert error(moment_matched_nodes) < 0.7 * error(plain_nodes)


@pytest.mark.parametrize("count", [7, 18])
def test_too_few_nodes_are_refused(count: int) -> None:
    with pytest.raises(ValueError, match="at least 2 D = 20"):
        moment_matched_nodes(count, 10, seed=1)


def test_default_nodes_are_enough_for_the_moments() -> None:
    assert default_count(2) == 64
    assert default_count(61) == 122


def test_densities(components: Components) -> None:
    x = np.random.default_rng(1).standard_normal((5, 3))
    each = np.stack(
        [
            multivariate_normal(mean, cov).logpdf(x)
            for mean, cov in zip(components.location, covariances(components), strict=True)
        ],
        axis=1,
    )
    np.testing.assert_allclose(components.log_each(x), each, rtol=1e-12)
    np.testing.assert_allclose(components.log_own(x), np.diagonal(each), rtol=1e-12)
    np.testing.assert_allclose(components.log_prob(x), np.log(np.exp(each).mean(axis=1)), rtol=1e-12)
    others = [np.log(np.exp(np.delete(each[t], t)).mean()) for t in range(5)]
    both = components.log_prob_with_and_without_own(x)
    np.testing.assert_allclose(both, [components.log_prob(x), others], rtol=1e-12)


def test_entropy_and_moments(components: Components) -> None:
    spread = covariances(components)
    expected = [multivariate_normal(np.zeros(3), cov).entropy() for cov in spread]
    np.testing.assert_allclose(components.entropy, expected, rtol=1e-12)
    mean, covariance = components.moments()
    between = np.cov(components.location, rowvar=False, bias=True)
    np.testing.assert_allclose(mean, components.location.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(covariance, between + spread.mean(axis=0), rtol=1e-12)


def test_draws_have_the_mixture_s_moments(components: Components) -> None:
    mean, covariance = components.moments()
    x = components.sample(200_000, np.random.default_rng(2))
    se = np.sqrt(np.diagonal(covariance) / len(x))
    assert np.all(np.abs(x.mean(axis=0) - mean) < 4 * se)
    np.testing.assert_allclose(np.cov(x, rowvar=False), covariance, atol=0.03 * np.abs(covariance).max())


@pytest.mark.parametrize(
    "f", [Coordinates(), Squares(), Sinusoids.random(4, 3, -1.0, np.random.default_rng(9), frequencies=6)]
)
def test_exact_expectations(components: Components, f: Coordinates | Squares | Sinusoids) -> None:
    rng = np.random.default_rng(4)
    exact = f.expectation(components)
    for t in range(len(components)):
        values = f(components.take(slice(t, t + 1)).sample(40_000, rng))
        se = values.std(axis=0) / np.sqrt(len(values))
        assert np.all(np.abs(values.mean(axis=0) - exact[t]) < 5 * se)


def numeric_fisher(name: str, theta: dict[str, NDArray], free: list[tuple[str, tuple[int, ...]]]) -> NDArray:
    """E[score score^T] by differences of log q and a product rule that is exact for its quartic integrand."""
    kind, dim = KINDS[name], theta["mu"].shape[1]
    points, weights = np.polynomial.hermite_e.hermegauss(4)
    grid = np.array(list(product(points, repeat=dim)))
    weight = np.prod(list(product(weights / weights.sum(), repeat=dim)), axis=1)
    x = kind.components(theta).place(grid)[0]

    def log_q(variable: str, index: tuple[int, ...], step: float) -> NDArray:
        moved = {key: values.copy() for key, values in theta.items()}
        moved[variable][(0, *index)] += step
        return kind.components(moved).log_each(x)[:, 0]

    score = np.stack([(log_q(*at, 1e-5) - log_q(*at, -1e-5)) / 2e-5 for at in free], axis=1)
    return (score * weight[:, None]).T @ score


@pytest.mark.parametrize("name", list(KINDS))
def test_fisher_information(name: str) -> None:
    rng = np.random.default_rng(6)
    dim = 3
    theta = {"mu": rng.standard_normal((1, dim))}
    free: list[tuple[str, tuple[int, ...]]] = [("mu", (i,)) for i in range(dim)]
    if name == "fullrank":
        theta["L"] = np.tril(rng.standard_normal((1, dim, dim)))
        theta["L"][:, range(dim), range(dim)] = np.exp(0.3 * rng.standard_normal((1, dim)))
        free += [("L", (i, j)) for i in range(dim) for j in range(i + 1)]
    elif name == "meanfield":
        theta["omega"] = 0.5 * rng.standard_normal((1, dim))
        free += [("omega", (i,)) for i in range(dim)]
    else:
        theta["omega"] = np.array([0.4])
        free += [("omega", ())]
    sign, log_det = np.linalg.slogdet(numeric_fisher(name, theta, free))
    assert sign == 1
    assert KINDS[name].half_log_fisher(theta)[0] == pytest.approx(0.5 * log_det, abs=1e-6)
