"""Pages from results: what the page shows, as plain values and figures for the template."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

#: One cell of a table: what is shown, and what the column is sorted by.
TableCell = tuple[str, float | str]


@dataclass
class Table:
    """A sortable table; the first column is the name of the row."""

    title: str
    headings: list[str]
    rows: list[list[TableCell]]


@dataclass
class Page:
    """Everything that the template shows, in its order. Texts are escaped, figures are SVG of our own."""

    title: str
    ran: list[tuple[str, str]]
    verdict: list[str]
    good: bool | None
    figures: list[tuple[str, Markup]] = field(default_factory=list)
    small: list[Markup] = field(default_factory=list)
    small_title: str = ""
    tables: list[Table] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def write_report(
    source: str | os.PathLike[str],
    out: str | os.PathLike[str],
    reference: str | os.PathLike[str] | None = None,
) -> Page:
    """Write one self-contained HTML page about ``source`` to ``out``, and return what it shows.

    ``source`` is the netCDF file of a fit, a mixture or NUTS, or the folder of a benchmark. ``reference`` is
    another netCDF file to hold a result against. Raises ValueError where it is neither.
    """
    from .bench_page import bench_page
    from .result_page import result_page

    source = Path(source)
    if source.is_dir():
        if reference is not None:
            raise ValueError("reference is for a result: a benchmark has its own references")
        page = bench_page(source)
    else:
        page = result_page(source, None if reference is None else Path(reference))
    environment = Environment(
        loader=PackageLoader("dais_stan.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    text = environment.get_template("page.html").render(page=page)
    Path(out).write_text(text, encoding="utf-8")
    return page


def number(value: float | None, digits: int = 3) -> TableCell:
    """A figure and what it is sorted by; nothing where there is none."""
    if value is None or value != value:
        return "", float("inf")
    return f"{value:.{digits}g}" if abs(value) < 1e5 else f"{value:,.0f}", float(value)


def whole(value: float | None) -> TableCell:
    """A whole number with separators."""
    return ("", float("inf")) if value is None or value != value else (f"{value:,.0f}", float(value))


def text(value: Any) -> TableCell:
    """A text, sorted as such."""
    return str(value), str(value)
