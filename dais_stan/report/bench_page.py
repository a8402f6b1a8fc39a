"""The page of a benchmark's folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..bench.summary import MethodSummary, by_posterior, count, median, summarise, worst_errors
from ..cells import Row
from ..comparison import GOOD, POOR
from . import figures
from .page import Page, Table, TableCell, number, text, whole


def bench_page(folder: Path) -> Page:
    """The page of what ``dais-stan bench posteriordb`` left in ``folder``; ValueError where it is not."""
    file = folder / "posteriordb.json"
    if not file.is_file():
        begun = (folder / "posteriordb.cells.jsonl").exists()
        hint = "; finish it by dais-stan bench posteriordb --resume" if begun else ""
        raise ValueError(f"{folder} holds no finished benchmark: there is no posteriordb.json{hint}")
    record = json.loads(file.read_text(encoding="utf-8"))
    rows, machine = record["rows"], record["machine"]
    methods = list(dict.fromkeys(row["method"] for row in rows))
    groups = by_posterior(rows)
    seeds = max(len({row["seed"] for row in _runs(rows, method)}) for method in methods)
    return Page(
        title="Methods against reference posteriors",
        ran=[
            ("Posteriors", str(len(groups))),
            ("Methods", ", ".join(methods)),
            ("Seeds", str(seeds)),
            ("Engine", ", ".join(sorted({row["engine"] for row in rows}))),
            ("Budget of a run", ", ".join(sorted({row["budget"] or "none" for row in rows}))),
            ("Machine", f"{machine['platform']}, {machine['cpus']} processors"),
        ],
        verdict=[_in_words(one) for one in summarise(rows)],
        good=None,
        figures=[
            ("Accuracy against cost", figures.accuracy(method_points(rows))),
            ("Worst error of each posterior", figures.errors(list(groups), _series(groups, methods))),
        ],
        tables=[_summary_table(rows), _posterior_table(groups, methods)],
        notes=_notes(rows),
    )


def _in_words(one: MethodSummary) -> str:
    sentence = (
        f"{one.method}: every mean and sd within {GOOD} on {one.good} of {one.posteriors} posteriors, within "
        f"{POOR} on {one.fair}"
    )
    if not np.isnan(one.gradients):
        sentence += (
            f"; {count(one.evaluations)} evaluations in the median, {count(one.gradients)} with gradient"
        )
    if one.bad_runs:
        sentence += f"; it warned of {one.bad_warned} of {one.bad_runs} bad runs"
    if one.good_runs:
        sentence += (
            f", of {one.good_warned} of {one.good_runs} good ones"
            if one.bad_runs
            else (f"; it warned of {one.good_warned} of {one.good_runs} good runs")
        )
    return sentence + "."


def _runs(rows: Sequence[Row], method: str) -> list[Row]:
    return [row for row in rows if row["method"] == method]


def method_points(rows: Sequence[Row]) -> dict[str, list[tuple[float, float]]]:
    """(evaluations, worst error) of each run of each method, as far as it says what it cost."""
    return {
        method: [
            (row["evaluations"], max(worst_errors([row])))
            for row in _runs(rows, method)
            if row.get("evaluations") and not row["failure"]
        ]
        for method in dict.fromkeys(row["method"] for row in rows)
    }


def _series(groups: dict[str, list[Row]], methods: Sequence[str]) -> dict[str, list[float]]:
    return {
        method: [
            max(worst_errors(_runs(rows, method))) if _runs(rows, method) else np.nan
            for rows in groups.values()
        ]
        for method in methods
    }


def _summary_table(rows: Sequence[Row]) -> Table:
    headings = [
        "method",
        f"both < {GOOD}",
        f"both < {POOR}",
        "posteriors",
        "failed runs",
        "bad runs warned of",
        "good runs warned of",
        "mean error",
        "log sd",
        "gradients",
        "evaluations",
        "seconds",
    ]
    body: list[list[TableCell]] = [
        [
            text(one.method),
            whole(one.good),
            whole(one.fair),
            whole(one.posteriors),
            whole(one.failed),
            _share(one.bad_warned, one.bad_runs),
            _share(one.good_warned, one.good_runs),
            number(one.mean_error),
            number(one.log_sd),
            whole(one.gradients),
            whole(one.evaluations),
            number(one.seconds),
        ]
        for one in summarise(rows)
    ]
    return Table("Methods (errors and costs are medians)", headings, body)


def _share(part: int, whole_of: int) -> TableCell:
    return (f"{part} of {whole_of}", part / whole_of) if whole_of else ("", float("inf"))


def _posterior_table(groups: dict[str, list[Row]], methods: Sequence[str]) -> Table:
    headings = ["posterior", "method", "mean error", "log sd", "k-hat", "warned", "gradients", "seconds"]
    body = []
    for posterior, rows in groups.items():
        for method in methods:
            runs = _runs(rows, method)
            if not runs:
                continue
            mean, spread = worst_errors(runs)
            warned = sum(bool(row["failure"] or row.get("warned")) for row in runs)
            body.append(
                [
                    text(posterior),
                    text(method),
                    number(mean) if np.isfinite(mean) else ("failed", float("inf")),
                    number(spread) if np.isfinite(spread) else ("failed", float("inf")),
                    number(median(runs, "khat")),
                    _share(warned, len(runs)),
                    whole(median(runs, "gradients")),
                    number(median(runs, "run_seconds")),
                ]
            )
    return Table("Each posterior (medians over seeds)", headings, body)


def _notes(rows: Sequence[Row]) -> list[str]:
    notes = [
        f"{row['posterior']}, {row['method']}, seed {row['seed']} failed: {row['failure']}"
        for row in rows
        if row["failure"]
    ]
    if "auto" in {row["method"] for row in rows}:
        notes += [
            f"{row['posterior']}, auto, seed {row['seed']}: {row['said']}"
            for row in _runs(rows, "auto")
            if not row["failure"] and max(worst_errors([row])) >= GOOD
        ]
    return notes
