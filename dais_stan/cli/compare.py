"""dais-stan compare: two results side by side, in figures, in words and as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from .common import Json, out, print_json, writable


def compare(
    a: Annotated[Path, typer.Argument(metavar="A.nc")],
    b: Annotated[Path, typer.Argument(metavar="B.nc", help="The reference.")],
    picture: Annotated[Path | None, typer.Option(help="Draw both marginals into this file.")] = None,
    as_json: Json = False,
) -> None:
    """Compare two results, B being the reference: standardised errors of means and sds, and a verdict."""
    from .. import arviz_io
    from ..comparison import compare as run

    writable(picture, a, b, option="--picture")
    posteriors = [arviz_io.read(path)["posterior"] for path in (a, b)]
    result = run(*posteriors)
    if picture:
        from .. import plots

        labels = ("A", "B") if a == b else (a.stem, b.stem) if a.stem != b.stem else (str(a), str(b))
        plots.save(plots.marginals(dict(zip(labels, posteriors, strict=True))), picture)
    if as_json:
        print_json(result.to_dict())
        return
    headings = ["", "mean A", "mean B", "(mean A - mean B) / sd B", "sd A", "sd B", "log(sd A / sd B)"]
    table = Table(*headings, box=None, header_style="bold")
    columns = (result.mean_a, result.mean_b, result.mean_error, result.sd_a, result.sd_b, result.log_sd_ratio)
    for name, *row in zip(result.names, *columns, strict=True):
        table.add_row(escape(name), *(f"{float(value):.3g}" for value in row))
    out.print(table)
    out.print(escape(result.verdict()), style="bold", highlight=False, soft_wrap=True)
