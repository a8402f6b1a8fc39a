"""Pathfinder's draws in the unconstrained space, and fits that start from them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dais_stan as ds
from dais_stan.pathfinder import pathfinder_draws

PROGRAM = Path(__file__).with_name("stan") / "gamma_normal.stan"


@pytest.fixture(scope="module")
def target() -> ds.Target:
    return ds.Target.from_stan(PROGRAM, data={"shape": 3})


def test_draws_are_unconstrained_and_repeat_with_their_seed(target: ds.Target) -> None:
    z = pathfinder_draws(target, seed=1)
    assert z.shape == (1000, 2)
    # x ~ gamma(3, 2): log x has mean digamma(3) - log 2 = 0.230 and sd 0.628; y has mean 1.5 and sd 1.
    np.testing.assert_allclose(z.mean(axis=0), [0.230, 1.5], atol=0.15)
    np.testing.assert_allclose(z.std(axis=0), [0.628, 1.0], rtol=0.2)
    np.testing.assert_array_equal(z, pathfinder_draws(target, seed=1))


def test_a_fit_may_start_from_them(target: ds.Target) -> None:
    fit = ds.fit(target, start="pathfinder", seed=1)
    assert fit.start_note == "started from Pathfinder's draws" and fit.converged
    np.testing.assert_allclose(fit.mean, [0.230, 1.5], atol=0.1)


def test_failures_are_one_sentence(target: ds.Target) -> None:
    functions = ds.Target.from_functions(lambda z: (-0.5 * (z * z).sum(axis=1), -z), 2)
    with pytest.raises(ValueError, match="must be a Stan program"):
        ds.fit(functions, start="pathfinder", seed=1)
    nowhere = ds.Target.from_stan(
        stan_code="parameters { real x; } model { x ~ uniform(5, 6); }", engine="stanli"
    )
    with pytest.raises(ds.TargetError, match="Pathfinder failed on model"):
        pathfinder_draws(nowhere, seed=1)
