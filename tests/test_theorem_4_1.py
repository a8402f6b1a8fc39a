"""Theorem 4.1 of Zenn & Bamler (2024) in closed form and by simulation with perfect transitions."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from theorem_4_1 import Gaussian, exact_gap, problem, second_order, simulated_gap, symmetrised_kl


@pytest.mark.parametrize("dim", [1, 2, 6])
def test_the_gap_is_half_the_symmetrised_kl_over_k_and_the_next_order_is_known(dim):
    """What is left beyond the two orders falls as K^-4; the second order is there, and falls as K^-2."""
    q0, target = problem(dim, seed=3)
    second = second_order(q0, target)
    assert abs(second) > 1e-3

    def error(k):
        return exact_gap(q0, target, k) - symmetrised_kl(q0, target) / (2 * k)

    assert error(256) * 256**2 == pytest.approx(second, rel=1e-3)
    rest = [(error(k) - second / k**2) * k**4 for k in (8, 16, 32)]
    assert rest[1] == pytest.approx(rest[2], rel=0.05)
    assert rest[0] == pytest.approx(rest[2], rel=0.2)


def test_one_dimension_by_hand():
    """KL(N(0,1), N(1,4)) and back, and the bridge in the middle: N(1/5, 8/5)."""
    q0, target = Gaussian(np.zeros(1), np.eye(1)), Gaussian(np.ones(1), 4 * np.eye(1))
    assert q0.kl(target) == pytest.approx(np.log(2) + 2 / 8 - 0.5)
    assert target.kl(q0) == pytest.approx(-np.log(2) + 5 / 2 - 0.5)
    middle = q0.bridge(target, 0.5)
    assert (middle.mean[0], middle.covariance[0, 0]) == (pytest.approx(1 / 5), pytest.approx(8 / 5))
    assert exact_gap(q0, target, 1) == pytest.approx(q0.kl(target))


@pytest.mark.parametrize("transitions", [1, 4, 16])
def test_simulation_with_perfect_transitions_has_this_gap(transitions):
    q0, target = problem(3, seed=5)
    gap, se = simulated_gap(q0, target, transitions, 40_000, np.random.default_rng(1))
    expected = exact_gap(q0, target, transitions)
    assert abs(gap - expected) < 4 * se
    assert se < 0.1 * expected


def test_the_symmetrised_kl_has_its_mean_field_minimum_where_the_specification_says():
    """For a Gaussian target: the target's mean, and s_i^2 = sqrt(S_ii / P_ii)."""
    _, target = problem(4, seed=2)
    spread = np.diag(target.covariance)
    best = np.sqrt(spread / np.diag(np.linalg.inv(target.covariance)))
    least = symmetrised_kl(Gaussian(target.mean, np.diag(best)), target)
    for i in range(4):
        for factor in (0.98, 1.02):
            moved = best.copy()
            moved[i] *= factor
            assert symmetrised_kl(Gaussian(target.mean, np.diag(moved)), target) > least
