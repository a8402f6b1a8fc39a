"""Figures as inline SVG: small enough for a phone's width, and text that stays text."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

#: Inches; a column of a page, or a phone held upright.
WIDTH = 4.6
#: More scalars than this are shown in the table only.
MAX_SCALARS = 40
#: Marker and colour of each method, in its turn: no two look alike.
MARKERS = "osD^vP*X<>pdh"
COLOURS = (*(f"C{i}" for i in range(10)), "black", "navy", "maroon")


def _style(i: int) -> tuple[str, str]:
    return MARKERS[i % len(MARKERS)], COLOURS[i % len(COLOURS)]


def svg(figure: Figure, describe: str) -> Markup:
    """The figure as an <svg> element with a description for those who cannot see it."""
    buffer = io.StringIO()
    # Names of clip paths are hashes: with one salt a figure, figures on one page do not share them.
    style: Any = {"svg.fonttype": "none", "svg.hashsalt": describe, "font.family": "sans-serif"}
    with matplotlib.rc_context(style):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Title": describe})
    text = buffer.getvalue()
    return Markup(text[text.index("<svg") :])  # matplotlib has escaped every text in it


def forest(ours: dict[str, NDArray], reference: dict[str, NDArray] | None) -> Markup:
    """Medians with 50 % and 90 % intervals of each scalar, in units of its own standard deviation.

    A line is centred at the reference's mean and scaled by its sd, or the draws' own where there is none.
    """
    names = list(ours)[:MAX_SCALARS]
    figure = Figure(figsize=(WIDTH, 0.9 + 0.22 * len(names)), layout="constrained")
    axes = figure.subplots()
    sides = [("result", ours, "C0", 0.0)]
    if reference:
        sides = [("result", ours, "C0", -0.16), ("reference", reference, "0.35", 0.16)]
    for label, draws, colour, shift in sides:
        for row, name in enumerate(names):
            if name not in draws:
                continue
            base = (reference or ours).get(name, ours[name])
            unit = base.std() or 1.0
            q = np.quantile((draws[name] - base.mean()) / unit, [0.05, 0.25, 0.5, 0.75, 0.95])
            y = row + shift
            axes.plot(q[[0, 4]], [y, y], color=colour, lw=1)
            axes.plot(q[[1, 3]], [y, y], color=colour, lw=3, solid_capstyle="butt")
            axes.plot(q[2], y, "o", color=colour, ms=3.5, label=label if row == 0 else None)
    axes.set_yticks(range(len(names)), names, fontsize=8, parse_math=False)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xlabel("(value - mean) / sd" + (" of the reference" if reference else ""), fontsize=9)
    axes.grid(axis="x", lw=0.4)
    _frame(axes)
    if reference:
        figure.legend(loc="outside upper center", ncols=2, frameon=False, fontsize=9)
    more = "" if len(ours) <= MAX_SCALARS else f"; the first {MAX_SCALARS} of {len(ours)} scalars"
    return svg(figure, f"Intervals of each scalar{more}")


def marginal(name: str, values: NDArray, reference: NDArray | None) -> Markup:
    """Histogram of a scalar, filled, with the reference's as a line."""
    figure = Figure(figsize=(WIDTH / 2, 1.5), layout="constrained")
    axes = figure.subplots()
    pooled = values if reference is None else np.concatenate([values, reference])
    pooled = pooled[np.isfinite(pooled)]
    low, high = np.quantile(pooled, [0.002, 0.998]) if len(pooled) else (0.0, 0.0)
    if low == high:
        low, high = low - 0.5, high + 0.5
    bins = np.linspace(low, high, 41).tolist()
    axes.hist(values, bins=bins, density=True, histtype="stepfilled", alpha=0.4, color="C0")
    if reference is not None:
        axes.hist(reference, bins=bins, density=True, histtype="step", color="0.25", lw=1.1)
    axes.set_title(name, fontsize=9, parse_math=False)
    axes.set_yticks([])
    axes.xaxis.set_major_locator(MaxNLocator(3))
    axes.tick_params(labelsize=8)
    _frame(axes)
    return svg(figure, f"Marginal of {name}")


def trace(iteration: NDArray, value: NDArray, se: NDArray) -> Markup:
    """The objective over the optimiser's iterations, a band of two standard errors about it."""
    figure = Figure(figsize=(WIDTH, 2.2), layout="constrained")
    axes = figure.subplots()
    usable = np.isfinite(value)
    iteration, value, se = iteration[usable], value[usable], np.nan_to_num(se[usable], posinf=0.0)
    axes.fill_between(iteration, value - 2 * se, value + 2 * se, alpha=0.25, lw=0)
    axes.plot(iteration, value, lw=1.2)
    if len(value) > 4:  # the first window is often far below all others
        tail = value[len(value) // 4 :]
        spread = max(np.ptp(tail), 4 * se[len(value) // 4 :].max(), 1e-3)
        axes.set_ylim(tail.min() - spread, tail.max() + 0.5 * spread)
    axes.set_xlabel("iterations", fontsize=9)
    axes.set_ylabel("objective", fontsize=9)
    axes.tick_params(labelsize=8)
    _frame(axes)
    return svg(figure, "Objective over iterations")


def _legend(figure: Figure) -> None:
    """Below the axes, unless every run failed and there is nothing to name."""
    if figure.axes[0].get_legend_handles_labels()[0]:
        figure.legend(loc="outside lower center", ncols=4, frameon=False, fontsize=8)


def accuracy(points: Mapping[str, Sequence[tuple[float, float]]]) -> Markup:
    """Each method's (evaluations, worst error) of every posterior, and its medians as a large marker."""
    figure = Figure(figsize=(WIDTH, 3.9), layout="constrained")
    axes = figure.subplots()
    for i, (method, pairs) in enumerate(points.items()):
        if not pairs:  # it has a colour all the same, that of the other figure
            continue
        cost, error = np.array(pairs).T
        above = len(points) - i  # the first method, which is the one to look at, is not hidden by the others
        marker, colour = _style(i)
        axes.plot(cost, np.clip(error, 3e-3, 30), marker, color=colour, ms=3, alpha=0.35, mew=0, zorder=above)
        axes.plot(
            np.median(cost),
            np.clip(np.median(error), 3e-3, 30),
            marker,
            color=colour,
            ms=9,
            mec="white",
            label=method,
            zorder=50 + above,
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylim(3e-3, 30)
    for limit in (0.1, 0.3):
        axes.axhline(limit, color="0.5", lw=0.7, ls="--")
    axes.set_xlabel("evaluations of the log density, with or without gradient", fontsize=9)
    axes.set_ylabel("worst error of a mean or log sd", fontsize=9)
    axes.tick_params(labelsize=8)
    _frame(axes)
    _legend(figure)
    return svg(figure, "Worst error against evaluations, for each method")


def errors(posteriors: Sequence[str], series: Mapping[str, Sequence[float]]) -> Markup:
    """The worst error of each posterior by each method, on one line a posterior; infinite at the edge."""
    figure = Figure(figsize=(WIDTH, 1.2 + 0.2 * len(posteriors)), layout="constrained")
    axes = figure.subplots()
    for i, (method, values) in enumerate(series.items()):
        shown = np.clip(np.nan_to_num(np.array(values, dtype=float), posinf=30.0), 3e-3, 30)
        rows = np.arange(len(posteriors)) + 0.6 * ((i + 0.5) / len(series) - 0.5)  # none hides another
        known = ~np.isnan(np.array(values, dtype=float))
        marker, colour = _style(i)
        axes.plot(shown[known], rows[known], marker, color=colour, ms=4, alpha=0.8, mew=0, label=method)
    axes.set_xscale("log")
    axes.set_xlim(3e-3, 40)
    for limit in (0.1, 0.3):
        axes.axvline(limit, color="0.5", lw=0.7, ls="--")
    labels = [name if len(name) < 30 else name.split("-")[-1] for name in posteriors]
    axes.set_yticks(range(len(posteriors)), labels, fontsize=7, parse_math=False)
    axes.set_ylim(len(posteriors) - 0.4, -0.6)
    axes.set_xlabel("worst error (at the edge: failed, or above 30)", fontsize=9)
    axes.tick_params(axis="x", labelsize=8)
    _frame(axes)
    _legend(figure)
    return svg(figure, "Worst error of each posterior by each method")


def _frame(axes: Axes) -> None:
    for side in ("right", "top"):
        axes.spines[side].set_visible(False)
