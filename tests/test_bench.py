"""The benchmark: errors against closed forms, rows of failures, summaries, the command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from dais_stan.bench.outcome import Budget, OverBudget
from dais_stan.bench.run import errors, run_benchmark, run_cell
from dais_stan.bench.summary import summarise, to_markdown
from dais_stan.posteriordb import Reference

POSTERIOR = "gp_pois_regr-gp_regr"


def cell(**changes: object) -> dict:
    return {
        "posterior": POSTERIOR,
        "method": "fullrank",
        "seed": 1,
        "engine": "stanli",
        "budget": None,
        **changes,
    }


def without_times(row: dict) -> dict:
    return {name: value for name, value in row.items() if "seconds" not in name}


def test_errors_are_those_of_a_shifted_and_stretched_normal() -> None:
    """N(1, 2^2) against N(0, 1): mean error 1, log sd ratio log 2; b is moved by 0.5, distance 0.5."""
    rng = np.random.default_rng(1)
    noise = rng.standard_normal(100_000)
    reference = Reference(
        ("a", "b", "fixed"),
        mean=np.zeros(3),
        sd=np.array([1.0, 2.0, 0.0]),
        mcse=np.zeros(3),
        source="test",
        draws=np.stack([noise, 2 * noise, 0 * noise], axis=1),
    )
    found = errors({"a": 1 + 2 * noise, "b": 1 + 2 * noise, "other": noise}, reference)
    assert set(found["scalars"]) == {"a", "b"}
    assert found["worst_mean_error"] == pytest.approx(1.0, abs=0.02)
    assert found["average_mean_error"] == pytest.approx(0.75, abs=0.02)
    assert found["worst_log_sd"] == pytest.approx(np.log(2), abs=0.01)
    assert found["average_log_sd"] == pytest.approx(np.log(2) / 2, abs=0.01)
    assert found["scalars"]["b"][2] == pytest.approx(0.5, abs=0.01)


def test_a_row_has_errors_and_costs() -> None:
    row = run_cell(cell())
    assert row["failure"] is None and row["worst_mean_error"] < 0.1 and row["worst_log_sd"] < 0.1
    assert row["gradients"] > 1000 and row["warned"] is False and row["khat"] < 0.7


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"posterior": "nothing-nobody"}, "ValueError: posterior 'nothing-nobody' has no program"),
        ({"method": "magic"}, "KeyError: 'magic'"),
        ({"budget": "2000"}, "OverBudget: over the budget of 2000 gradients"),
    ],
)
def test_a_failure_is_a_row_that_says_why(changes: dict, why: str) -> None:
    assert run_cell(cell(**changes))["failure"].startswith(why)


def test_budgets() -> None:
    assert Budget.parse("20000") == Budget(gradients=20000)
    assert Budget.parse("1.5s") == Budget(seconds=1.5)
    for text in ("", "s", "-3", "0s", "many", "nans", "infs"):
        with pytest.raises(ValueError, match="budget must be"):
            Budget.parse(text)
    with pytest.raises(OverBudget):
        Budget(seconds=1.0).check(None, 2.0)


def test_a_resumed_run_on_more_workers_has_the_same_figures(tmp_path: Path) -> None:
    options = {"posteriors": [POSTERIOR, "sblri-blr"], "methods": ["fullrank", "auto"], "engine": "stanli"}
    whole = run_benchmark(tmp_path / "whole", seeds=2, **options)
    run_benchmark(tmp_path / "parts", seeds=1, **options)
    parts = run_benchmark(tmp_path / "parts", seeds=2, workers=2, **options)
    assert list(map(without_times, whole)) == list(map(without_times, parts))


@pytest.mark.parametrize("method", ["advi", "pathfinder", "laplace", "nuts"])
def test_cmdstans_own_methods_are_rows_beside_ours(method: str) -> None:
    row = run_cell(cell(method=method))
    assert row["failure"] is None and row["worst_mean_error"] < 1.0
    assert (row["evaluations"] or 0) > 100 or method == "laplace"
    assert row["compile_seconds"] > 0


def row(
    method: str, posterior: str, seed: int, error: float, warned: bool, failure: str | None = None
) -> dict:
    found = {"worst_mean_error": error, "worst_log_sd": 0.0} if failure is None else {}
    return {
        "posterior": posterior,
        "method": method,
        "seed": seed,
        "failure": failure,
        "warned": warned,
        **found,
    }


def test_summary_counts_posteriors_by_the_median_and_runs_by_themselves() -> None:
    rows = [
        row("m", "p", 1, 0.01, False),
        row("m", "p", 2, 0.02, True),
        row("m", "p", 3, 9.0, True),
        row("m", "q", 1, 0.2, False),
        row("m", "q", 2, 0.5, False),
        row("m", "q", 3, np.nan, True, failure="it broke"),
    ]
    (one,) = summarise(rows)
    assert (one.posteriors, one.good, one.fair) == (2, 1, 1)
    assert (one.runs, one.failed) == (6, 1)
    assert (one.bad_runs, one.bad_warned) == (3, 2)
    assert (one.good_runs, one.good_warned) == (2, 1)
    assert "it broke" in to_markdown(rows)


def test_the_command_keeps_finished_cells(tmp_path: Path, cli) -> None:
    out = tmp_path / "bench"
    arguments = ["bench", "posteriordb", "--posteriors", POSTERIOR, "--methods", "fullrank", "--seeds", 1]
    arguments += ["--engine", "stanli", "--out", out]
    first = cli(*arguments)
    assert first.code == 0 and "fullrank" in first.out
    saved = json.loads((out / "posteriordb.json").read_text())
    again = cli(*arguments)
    assert again.code == 2 and "--resume" in again.err
    assert cli(*arguments, "--resume").code == 0
    assert json.loads((out / "posteriordb.json").read_text()) == saved
    assert "| fullrank | 1 of 1 |" in (out / "posteriordb.md").read_text()
    for empty in ("", ","):
        none = cli(*arguments[:3], empty, *arguments[4:-1], tmp_path / "none")
        assert none.code == 2 and "must name at least one" in none.err
    twice = run_benchmark(out, posteriors=[POSTERIOR] * 2, methods=["fullrank"] * 2, seeds=1, engine="stanli")
    assert len(twice) == 1
    wrong = cli(*arguments[:3], "nothing-nobody", *arguments[4:-1], tmp_path / "other")
    assert wrong.code == 2 and "has no program here" in wrong.err
