"""The page of one result: a fit, a mixture, or draws of NUTS, with or without a reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import arviz_io
from ..comparison import compare
from ..psis import KHAT_LIMIT
from ..verdicts import NOT_TRUSTED
from . import figures
from .page import Page, Table, TableCell, number

#: Attributes that are shown, and how they are called.
SHOWN = {
    "method": "Method",
    "lambda": "lambda",
    "seed": "Seed",
    "chains": "Chains",
    "choice": "Choice",
    "start": "Start",
    "iterations": "Iterations",
    "stopped_by": "Stopped by",
    "log_evidence": "Log evidence",
    "elbo": "ELBO",
    "khat": "k-hat",
    "ess": "Effective draws",
    "max_rhat": "Largest R-hat",
    "divergences": "Divergences",
    "gradient_evaluations": "Gradients",
    "log_density_evaluations": "Log densities",
    "rejected_evaluations": "Rejected evaluations",
    "seconds": "Seconds",
    "inference_library_version": "dais-stan",
}
MAX_MARGINALS = 24


def result_page(path: Path, reference: Path | None) -> Page:
    """The page of a netCDF file. Raises ValueError where it is no result of ours."""
    groups = arviz_io.read(path)
    attributes = groups["posterior"].attrs
    if "verdict" not in attributes:
        raise ValueError(f"{path} has draws but no verdict: it was not written by dais-stan")
    ours = _varying(groups["posterior"])
    theirs = None if reference is None else _flat(arviz_io.read(reference)["posterior"])
    verdict = [attributes["verdict"]]
    if "khat" in attributes and np.isfinite(attributes["khat"]):
        verdict.append(_khat_in_words(float(attributes["khat"])))
    tables = [_table(ours, theirs)]
    if reference is not None:
        comparison = compare(path, reference)
        verdict.append(f"Against {reference.name} (B): {comparison.verdict()}")
    page = Page(
        title=f"{_method(attributes)}: {path.stem}",
        ran=_ran(attributes),
        verdict=verdict,
        good=NOT_TRUSTED not in attributes["verdict"],
        figures=[("Intervals", figures.forest(ours, theirs))] if ours else [],
        small=[figures.marginal(name, ours[name], (theirs or {}).get(name)) for name in _few(ours)],
        small_title="Marginals" + (" (line: reference)" if theirs else ""),
        tables=tables,
    )
    if "variational" in groups and groups["variational"].sizes.get("window", 0) > 1:
        steps = groups["variational"]
        parts = (steps[f"trace_{name}"].to_numpy() for name in ("iteration", "value", "se"))
        page.figures.append(("Objective", figures.trace(*parts)))
    return page


def _flat(posterior: Any) -> dict[str, NDArray]:
    return {name: values.ravel() for name, values in arviz_io.scalars(posterior).items()}


def _varying(posterior: Any) -> dict[str, NDArray]:
    return {name: values for name, values in _flat(posterior).items() if np.ptp(values) > 0}


def _few(draws: dict[str, NDArray]) -> list[str]:
    return list(draws)[:MAX_MARGINALS]


def _method(attributes: dict[str, Any]) -> str:
    return "NUTS" if attributes["method"] == "nuts" else str(attributes["method"])


def _ran(attributes: dict[str, Any]) -> list[tuple[str, str]]:
    out = []
    for name, label in SHOWN.items():
        value = attributes.get(name)
        if value is None or value == "":
            continue
        shown = (
            f"{value:,.4g}"
            if isinstance(value, float)
            else f"{value:,}"
            if name.endswith("ations")
            else str(value)
        )
        if name in ("log_evidence", "elbo") and f"{name}_se" in attributes:
            shown = f"{value:.3f} ± {attributes[f'{name}_se']:.3f}"
            if not attributes.get("log_evidence_normalized", 1):
                shown += " up to a constant"
        out.append((label, shown))
    return out


def _khat_in_words(khat: float) -> str:
    if khat <= KHAT_LIMIT:
        return f"k-hat is {khat:.2f}: the importance weights can be trusted (up to {KHAT_LIMIT})."
    if khat <= 1.0:
        return (
            f"k-hat is {khat:.2f}: the largest importance weights say too much; expect errors in the tails."
        )
    return f"k-hat is {khat:.2f}: the importance weights have no finite mean, and correct nothing."


def _table(ours: dict[str, NDArray], theirs: dict[str, NDArray] | None) -> Table:
    headings = ["scalar", "mean", "sd", "5 %", "50 %", "95 %"]
    if theirs:
        headings += ["mean error / sd", "log sd ratio"]
    rows = []
    for name, values in ours.items():
        quantiles = np.quantile(values, [0.05, 0.5, 0.95])
        row: list[TableCell] = [(name, name), *map(number, (values.mean(), values.std(), *quantiles))]
        if theirs:
            other = theirs.get(name)
            usable = other is not None and other.std() > 0
            row += [
                number((values.mean() - other.mean()) / other.std() if usable else None),  # type: ignore[union-attr]
                number(np.log(values.std() / other.std()) if usable else None),  # type: ignore[union-attr]
            ]
        rows.append(row)
    return Table("Scalars", headings, rows)
