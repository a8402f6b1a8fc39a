"""dais-stan report: one self-contained page about a result or a benchmark."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from .common import Quiet, out, writable


def report(
    source: Annotated[Path, typer.Argument(metavar="PATH", help="A result (.nc), or a benchmark's folder.")],
    out_file: Annotated[Path, typer.Option("--out", metavar="REPORT.html")] = Path("report.html"),
    reference: Annotated[
        Path | None, typer.Option(metavar="REF.nc", help="A result to hold this one against.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Write one HTML page: what was run, the verdict in words, pictures, tables. No script is needed."""
    from ..report import write_report

    writable(out_file, source, reference)
    if not source.exists():
        raise ValueError(f"{source}: no such file or folder")
    page = write_report(source, out_file, reference)
    if not quiet:
        for sentence in page.verdict:
            out.print(escape(sentence), highlight=False, soft_wrap=True)
        out.print(f"Saved to {escape(str(out_file))}", highlight=False, soft_wrap=True)
