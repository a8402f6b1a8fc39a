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
from matplotlib.ticker import NullFormatter
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
    """Our errors of the standard deviations against the published ones, one panel a data set.

    A dot is one N and K by the paper's settings, a star by the defaults; on the line both agree.
    """
    sets = group(rows, "group", "d")
    size = (3.2 * len(sets), 3.4)
    chart, panels = plt.subplots(1, len(sets), figsize=size, layout="constrained", squeeze=False)
    colours = {name: f"C{i}" for i, name in enumerate(("iwvi", "sir", "dais0", "dais", "msc1", "msc8"))}
    for axes, ((name, d), runs) in zip(panels[0], sets.items(), strict=True):
        seen = []
        for (preset, n, k, _), same in group(runs, "preset", "particles", "transitions", "method").items():
            for method in sorted(set(same[0]["mae"]) & set(colours)):
                theirs = published().get((name, d, "std", _column(method, k), n))
                if theirs is None:
                    continue
                ours = float(np.mean([run["mae"][method]["std"] for run in same]))
                marker = "o" if preset == "paper" else "*"
                axes.plot(theirs[0], ours, marker, color=colours[method], markersize=7, alpha=0.8)
                seen += [theirs[0], ours]
        ends = [0.8 * min(seen), 1.2 * max(seen)]
        axes.plot(ends, ends, color="0.7", linewidth=1, zorder=0)
        axes.set(xscale="log", yscale="log", xlabel="published", title=f"{name}, d = {d}")
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.yaxis.set_minor_formatter(NullFormatter())
    panels[0, 0].set_ylabel("ours (error of the sd)")
    handles = [plt.Line2D([], [], marker="s", linestyle="", color=c, label=m) for m, c in colours.items()]
    panels[0, -1].legend(handles=handles, fontsize="x-small")
    chart.savefig(path, dpi=130)
    plt.close(chart)
