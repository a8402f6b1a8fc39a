"""Pictures: marginals of two posteriors over each other."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from . import arviz_io

#: More panels than this are unreadable; the caller chooses which scalars to show.
MAX_PANELS = 20


def marginals(
    posteriors: dict[str, xr.Dataset], names: Sequence[str] | None = None, columns: int = 4
) -> Figure:
    """Histograms of each scalar, one panel a scalar, the first posterior filled and the others as outlines.

    ``posteriors`` maps a label to an ArviZ posterior dataset. ``names`` are Stan names such as "theta[1]";
    by default the first 20 that all posteriors have. Raises ValueError for a name that one of them lacks.
    """
    draws = {label: arviz_io.scalars(posterior) for label, posterior in posteriors.items()}
    shared = [name for name in next(iter(draws.values())) if all(name in other for other in draws.values())]
    for name in names or ():
        if name not in shared:
            raise ValueError(f"{name!r} is not a scalar of every posterior; those are {', '.join(shared)}")
    chosen = list(names or shared)[:MAX_PANELS]
    if not chosen:
        raise ValueError("the posteriors have no scalar in common to draw")
    columns = min(columns, len(chosen))
    rows = -(-len(chosen) // columns)
    figure = Figure(figsize=(2.6 * columns, 2.1 * rows + 0.5), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for panel, name in zip(panels, chosen, strict=False):
        _panel(panel, name, {label: values[name].ravel() for label, values in draws.items()})
    for panel in panels[len(chosen) :]:
        panel.axis("off")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False)
    return figure


def _panel(panel, name: str, draws: dict[str, np.ndarray]) -> None:  # type: ignore[no-untyped-def]
    pooled = np.concatenate(list(draws.values()))
    low, high = np.quantile(pooled[np.isfinite(pooled)], [0.002, 0.998])
    if low == high:
        low, high = low - 0.5, high + 0.5
    bins = np.linspace(low, high, 41)
    for i, (label, values) in enumerate(draws.items()):
        style = (
            {"histtype": "stepfilled", "alpha": 0.35} if i == 0 else {"histtype": "step", "linewidth": 1.4}
        )
        panel.hist(values, bins=bins, density=True, label=label, color=f"C{i}", **style)
    panel.set_title(name, fontsize=9)
    panel.set_yticks([])
    panel.tick_params(labelsize=7)
    for side in ("left", "right", "top"):
        panel.spines[side].set_visible(False)


def save(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write the figure in the format of the file's suffix."""
    figure.savefig(Path(path), dpi=150)
