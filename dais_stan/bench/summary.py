"""What the rows of a benchmark say together: errors, warnings and costs of each method, as tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..cells import Row
from ..comparison import GOOD, POOR


@dataclass(frozen=True)
class MethodSummary:
    """One method over all posteriors.

    Errors of a posterior are medians over its seeds, a failed run counting as infinite; ``good`` and ``fair``
    count posteriors with both the worst mean error and the worst log sd ratio below 0.1 and 0.3. Rates of
    warnings are over runs: of those with an error above 0.3 (or failed), and of those with all below 0.1.
    """

    method: str
    posteriors: int
    good: int
    fair: int
    runs: int
    failed: int
    bad_runs: int
    bad_warned: int
    good_runs: int
    good_warned: int
    mean_error: float
    log_sd: float
    gradients: float
    evaluations: float
    seconds: float


def by_posterior(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Rows of each posterior."""
    out: dict[str, list[Row]] = {}
    for row in rows:
        out.setdefault(row["posterior"], []).append(row)
    return out


def worst_errors(runs: Sequence[Row]) -> tuple[float, float]:
    """Median over runs of the worst mean error and the worst log sd ratio; NaN where there are no runs."""
    if not runs:
        return np.nan, np.nan
    pairs = [
        (np.inf, np.inf)
        if row["failure"]
        else (_number(row["worst_mean_error"], np.inf), _number(row["worst_log_sd"], np.inf))
        for row in runs
    ]
    mean, spread = np.median(np.array(pairs), axis=0)
    return float(mean), float(spread)


def median(runs: Sequence[Row], column: str) -> float:
    """Median of a column over the runs that have it; NaN where none has."""
    values = [row[column] for row in runs if row.get(column) is not None]
    return float(np.median(values)) if values else np.nan


def summarise(rows: Sequence[Row]) -> list[MethodSummary]:
    """One summary a method, in the order in which the methods first appear."""
    methods = list(dict.fromkeys(row["method"] for row in rows))
    return [_summarise(method, [row for row in rows if row["method"] == method]) for method in methods]


def _summarise(method: str, runs: list[Row]) -> MethodSummary:
    pairs = [worst_errors(mine) for mine in by_posterior(runs).values()]
    worst = [max(pair) for pair in pairs]
    alone = [(row, max(worst_errors([row]))) for row in runs]
    bad = [row for row, error in alone if error > POOR]
    good = [row for row, error in alone if error < GOOD]
    return MethodSummary(
        method=method,
        posteriors=len(worst),
        good=sum(error < GOOD for error in worst),
        fair=sum(error < POOR for error in worst),
        runs=len(runs),
        failed=sum(bool(row["failure"]) for row in runs),
        bad_runs=len(bad),
        bad_warned=sum(bool(row["failure"] or row["warned"]) for row in bad),
        good_runs=len(good),
        good_warned=sum(bool(row["warned"]) for row in good),
        mean_error=float(np.median([pair[0] for pair in pairs])),
        log_sd=float(np.median([pair[1] for pair in pairs])),
        gradients=median(runs, "gradients"),
        evaluations=median(runs, "evaluations"),
        seconds=median(runs, "run_seconds"),
    )


HEADINGS = (
    "method",
    f"both < {GOOD}",
    f"both < {POOR}",
    "failed runs",
    "bad runs warned of",
    "good runs warned of",
    "worst mean error",
    "worst log sd",
    "gradients",
    "evaluations",
    "seconds",
)


def table(rows: Sequence[Row]) -> list[list[str]]:
    """The summary's cells as text, under ``HEADINGS``; the last five columns are medians."""
    return [
        [
            one.method,
            f"{one.good} of {one.posteriors}",
            f"{one.fair} of {one.posteriors}",
            f"{one.failed} of {one.runs}",
            f"{one.bad_warned} of {one.bad_runs}",
            f"{one.good_warned} of {one.good_runs}",
            figure(one.mean_error),
            figure(one.log_sd),
            count(one.gradients),
            count(one.evaluations),
            figure(one.seconds),
        ]
        for one in summarise(rows)
    ]


def to_markdown(rows: Sequence[Row]) -> str:
    """The summary, and below it the worst mean error / worst log sd of each posterior by each method."""
    methods = list(dict.fromkeys(row["method"] for row in rows))
    text = markdown(HEADINGS, table(rows)) + "\n"
    body = []
    for posterior, mine in by_posterior(rows).items():
        runs = {method: [row for row in mine if row["method"] == method] for method in methods}
        body.append([posterior, *(_pair(runs[method]) for method in methods)])
    text += markdown(["worst mean error / worst log sd", *methods], body)
    failures = [row for row in rows if row["failure"]]
    if failures:
        text += "\nFailures:\n\n" + "".join(
            f"- {row['posterior']}, {row['method']}, seed {row['seed']}: {row['failure']}\n"
            for row in failures
        )
    return text


def _pair(runs: Sequence[Row]) -> str:
    if not runs:
        return "-"
    mean, spread = worst_errors(runs)
    khat = median(runs, "khat")
    return f"{figure(mean)} / {figure(spread)}" + (f" (k-hat {khat:.2f})" if np.isfinite(khat) else "")


def markdown(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table in Markdown."""
    lines = [list(map(str, headings)), ["---"] * len(headings), *(list(map(str, row)) for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def figure(value: float) -> str:
    """Three digits, or what there is instead of a number."""
    if np.isnan(value):
        return "-"
    return "failed" if np.isinf(value) else f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def count(value: float) -> str:
    """A whole number with separators."""
    return "-" if np.isnan(value) else f"{value:,.0f}"


def _number(value: float | None, otherwise: float) -> float:
    return otherwise if value is None else value
