"""The tables of Zenn & Bamler (2024) beside ours: errors of posterior means and standard deviations.

``published.json`` holds tables 1 to 12 and 14 to 23, one entry a number. Our rows have ``group`` (the data
set), ``d``, ``preset``, ``method``, ``particles``, ``transitions`` (0 where there are none), ``seed`` and
``mae``, the errors of each estimate that the method has: {"mean", "std"}.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray
from study import Row, group, markdown, mean_and_sd

Numbers = dict[tuple[str, int, str, str, int], tuple[float, float]]


@cache
def published() -> Numbers:
    """(group, d, "mean" or "std", column, N) -> value and its standard deviation over three runs."""
    entries = json.loads(Path(__file__).with_name("published.json").read_text())
    out: Numbers = {}
    for entry in entries:
        column, particles = entry["column"], entry["N"] or 16  # tables 1 and 2 are of N = 16
        if "(N=" in column:
            column, particles = column.split("(")[0], int(column.split("=")[1].rstrip(")"))
        key = (entry["group"], entry["d"], entry["kind"], column, particles)
        out[key] = (entry["value"], entry["sd"])
    return out


def _column(method: str, transitions: int) -> str:
    """The published name of one of our methods."""
    names = {"iwvi": "IWVI", "sir": "IWVI_SIR", "msc1": "MSC_1c", "msc8": "MSC_8c"}
    if method in names:
        return names[method]
    return f"DAIS_0({transitions})" if method == "dais0" else f"DAIS({transitions})"


def absolute_errors(mean: NDArray, sd: NDArray, reference: tuple[NDArray, NDArray]) -> dict[str, float]:
    """Mean absolute errors over coordinates of a mean (D,) and standard deviations (D,)."""
    return {
        "mean": float(np.abs(mean - reference[0]).mean()),
        "std": float(np.abs(sd - reference[1]).mean()),
    }


def comparison_table(rows: Iterable[Row]) -> str:
    """Ours beside the published number for each data set, settings, N, K, method and moment, their ratio, how
    many runs ours is of, and the iterations and seconds of one.
    """
    lines = []
    keys = ("group", "d", "preset", "particles", "transitions", "method")
    for (name, d, preset, n, k, _), runs in group(rows, *keys).items():
        cost = (len(runs), _mean_of(runs, "iterations_run"), _mean_of(runs, "seconds"))
        for method in runs[0]["mae"]:
            for kind in ("mean", "std"):
                ours = [run["mae"][method][kind] for run in runs]
                beside = _beside((name, d, n, k), method, kind, ours)
                lines.append((name, d, preset, n, k, method, kind, mean_and_sd(ours), *beside, *cost))
    headings = ("data", "d", "settings", "N", "K", "method", "error of", "ours", "published", "ratio")
    return markdown((*headings, "runs", "iterations", "seconds"), lines)


def _mean_of(runs: list[Row], key: str) -> str:
    return f"{np.mean([run[key] for run in runs]):.0f}"


def _beside(place: tuple[str, int, int, int], method: str, kind: str, ours: list[float]) -> tuple[str, str]:
    """The published number and how many times as large ours is; empty where there is none."""
    name, d, particles, transitions = place
    theirs = published().get((name, d, kind, _column(method, transitions), particles))
    if theirs is None:
        return "", ""
    return f"{theirs[0]:.2e} ± {theirs[1]:.1e}", f"{np.mean(ours) / theirs[0]:.2f}"


def plot_errors(rows: list[Row], path: Any) -> None:
    """Error of the standard deviations against N, one panel a data set, published numbers as crosses."""
    sets = group(rows, "group", "d")
    chart, panels = plt.subplots(
        1, len(sets), figsize=(4 * len(sets), 3.5), layout="constrained", squeeze=False
    )
    for axes, ((name, d), runs) in zip(panels[0], sets.items(), strict=True):
        curves: dict[tuple[str, int, str], dict[int, list[float]]] = {}
        for run in runs:
            for method in run["mae"]:
                curve = curves.setdefault((method, run["transitions"], run["preset"]), {})
                curve.setdefault(run["particles"], []).append(run["mae"][method]["std"])
        for (method, transitions, preset), curve in sorted(curves.items()):
            label = (f"{method}({transitions})" if transitions else method) + f", {preset}"
            n = sorted(curve)
            style = "o-" if preset == "paper" else "*"
            (line,) = axes.plot(n, [np.mean(curve[i]) for i in n], style, markersize=4, label=label)
            theirs = {i: published().get((name, d, "std", _column(method, transitions), i)) for i in n}
            known = [(i, number[0]) for i, number in theirs.items() if number]
            if known:
                axes.plot(*zip(*known, strict=True), "x", color=line.get_color())
        axes.set(xscale="log", yscale="log", xlabel="N", title=f"{name}, d = {d}")
    panels[0, 0].set_ylabel("mean absolute error of the sd")
    panels[0, -1].legend(fontsize="xx-small")
    chart.savefig(path, dpi=150)
    plt.close(chart)
