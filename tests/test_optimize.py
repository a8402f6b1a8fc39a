"""Adam with plateaus: reaches optima, says what ended it, resumes to the same result."""

from typing import NamedTuple

import numpy as np
import pytest

from dais_stan.optimize import Checkpoint, Schedule, maximize


class Noisy(NamedTuple):
    value: float
    gradient: np.ndarray
    rejected: int = 0


def quadratic(centre, noise=0.0, curvature=1.0):
    def objective(params, rng):
        error = params - centre
        jitter = noise * rng.standard_normal(len(params))
        value = -0.5 * curvature * error @ error + noise * rng.standard_normal()
        return Noisy(value, -curvature * error + jitter)

    return objective


CENTRE = np.array([1.0, -2.0, 0.5])


def run(objective, schedule=None, seed=1, **options):
    return maximize(objective, np.zeros(3), schedule or Schedule(), np.random.default_rng(seed), **options)


def test_finds_the_maximum_without_noise():
    optimum = run(quadratic(CENTRE))
    assert optimum.stopped_by == "converged"
    np.testing.assert_allclose(optimum.params, CENTRE, atol=1e-3)


def test_finds_the_maximum_under_noise():
    optimum = run(quadratic(CENTRE, noise=1.0), Schedule(iterate_tolerance=0.03))
    assert optimum.stopped_by == "converged"
    np.testing.assert_allclose(optimum.params, CENTRE, atol=0.1)


def test_says_when_the_iterations_ran_out():
    optimum = run(quadratic(100 * CENTRE), Schedule(max_iterations=250))
    assert (optimum.stopped_by, optimum.iterations) == ("max_iterations", 250)


def test_does_not_stop_at_the_first_look_nor_run_for_ever_at_the_optimum():
    schedule = Schedule()
    optimum = maximize(quadratic(np.zeros(1)), np.zeros(1), schedule, np.random.default_rng(0))
    assert optimum.stopped_by == "converged"
    assert optimum.iterations == (2 + 2 + 4) * schedule.window


def test_convergence_at_the_very_last_iteration_counts():
    schedule = Schedule(max_iterations=800)
    optimum = maximize(quadratic(np.zeros(1)), np.zeros(1), schedule, np.random.default_rng(0))
    assert optimum.stopped_by == "converged"


def test_goes_on_while_it_still_climbs():
    """A slope that never ends is no plateau, however small the learning rate."""
    optimum = run(lambda params, rng: Noisy(params.sum(), np.ones(3)), Schedule(max_iterations=3000))
    assert optimum.stopped_by == "max_iterations"


def test_stops_when_every_draw_is_rejected():
    optimum = run(lambda params, rng: Noisy(-np.inf, np.zeros(3), rejected=8))
    assert (optimum.stopped_by, optimum.iterations, optimum.rejected) == ("rejected", 500, 4000)


def test_trace_has_a_standard_error_for_each_window():
    trace = run(quadratic(CENTRE, noise=1.0)).trace
    assert len(trace.iteration) == len(trace.value) == len(trace.se) == len(trace.learning_rate)
    assert np.diff(trace.iteration).tolist() == [100] * (len(trace.iteration) - 1)
    assert all(0.05 < se < 2 for se in trace.se)


class Interrupted(Exception):
    pass


def test_a_killed_run_resumes_to_the_same_result(tmp_path, monkeypatch):
    monkeypatch.setattr("dais_stan.optimize.CHECKPOINT_SECONDS", 0.0)
    whole = run(quadratic(CENTRE, noise=1.0))
    calls = 0

    def killed(params, rng):
        nonlocal calls
        calls += 1
        if calls == 450:
            raise Interrupted
        return quadratic(CENTRE, noise=1.0)(params, rng)

    file = tmp_path / "run.checkpoint"
    with pytest.raises(Interrupted):
        run(killed, checkpoint=Checkpoint(file, "problem"))
    assert file.exists()
    resumed = run(quadratic(CENTRE, noise=1.0), seed=99, checkpoint=Checkpoint(file, "problem"))
    np.testing.assert_array_equal(resumed.params, whole.params)
    assert resumed.iterations == whole.iterations
    assert resumed.trace == whole.trace


def test_a_checkpoint_of_another_problem_is_refused(tmp_path):
    file = tmp_path / "run.checkpoint"
    run(quadratic(CENTRE), checkpoint=Checkpoint(file, "problem"))
    with pytest.raises(ValueError, match="another run"):
        run(quadratic(CENTRE), checkpoint=Checkpoint(file, "other"))


@pytest.mark.parametrize(
    "bad", [{"learning_rates": ()}, {"learning_rates": (0.1, -1.0)}, {"window": 1}, {"max_iterations": 0}]
)
def test_a_senseless_schedule_is_refused_by_name(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        Schedule(**bad)


@pytest.mark.parametrize("broken", [np.nan, np.inf, 1e200])
def test_a_gradient_that_overflows_makes_no_step(broken):
    calls = 0

    def objective(params, rng):
        nonlocal calls
        calls += 1
        gradient = -params if calls % 7 else np.full(2, broken)
        return Noisy(float(-0.5 * params @ params), gradient, 0)

    optimum = maximize(objective, np.ones(2), Schedule(), np.random.default_rng(1))
    assert optimum.stopped_by == "converged"
    assert optimum.rejected == calls // 7
    np.testing.assert_allclose(optimum.params, 0.0, atol=0.01)
