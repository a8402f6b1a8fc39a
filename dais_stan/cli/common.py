"""What the commands share: their common options, and how they report to the user."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

out, err = Console(), Console(stderr=True)

Model = Annotated[Path, typer.Argument(metavar="MODEL.stan", help="The Stan program.")]
Data = Annotated[Path | None, typer.Option("--data", metavar="D.json", help="Data in Stan's JSON.")]
Seed = Annotated[int | None, typer.Option(min=0, max=2**31 - 1, help="Same seed, same result.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print only warnings and errors.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
EngineName = Annotated[
    str, typer.Option("--engine", help="auto, bridgestan, pypi, or stanli (no compiler; constants dropped).")
]
Threads = Annotated[int | None, typer.Option(min=1, help="Threads for batches of points.")]


def fail(message: str) -> NoReturn:
    err.print(f"[bold red]Error:[/] {escape(message)}", highlight=False, soft_wrap=True)
    sys.exit(2)


def show_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    if not issubclass(category, FutureWarning | DeprecationWarning):
        err.print(f"[yellow]Warning:[/] {escape(str(message))}", highlight=False, soft_wrap=True)


def writable(path: Path | None, *inputs: Path | None, option: str = "--out") -> Path | None:
    """Find out before an hour of work, not after it, that the result cannot be written.

    Nor may it take the place of one of the command's ``inputs``.
    """
    if path is None:
        return None
    for source in inputs:
        if source is not None and path.resolve() == source.resolve():
            raise ValueError(f"{option} {path} is one of the files to read: name another")
    if path.is_dir():
        raise ValueError(f"{option} must be a file, found the folder {path}")
    probe = path.with_name(path.name + ".partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with probe.open("ab"):
            pass
        probe.unlink()
    except OSError as error:
        raise ValueError(f"{option} {path} cannot be written: {error.strerror}") from error
    return path


def log_steps(quiet: bool) -> None:
    """Say on standard error what takes long or went another way than usual."""
    logging.getLogger("dais_stan").setLevel(logging.WARNING if quiet else logging.INFO)


def report(
    attributes: dict[str, Any], posterior: Any, kind: str, out_file: Path | None, quiet: bool, as_json: bool
) -> None:
    """Print what was found: one JSON object, or a table of scalars, the record and the verdict."""
    from .. import arviz_io

    if quiet and not as_json:
        return
    summary = arviz_io.summary(posterior, kind)
    if as_json:
        rows = summary.astype(float).to_dict(orient="index")
        print_json({**attributes, "out": str(out_file) if out_file else None, "summary": rows})
        return
    # What fits on a line of 80 characters; the JSON has every column.
    shown = summary[[name for name in summary.columns if not name.startswith(("mcse", "ess_tail"))]].head(40)
    table = Table(*["", *shown.columns], box=None, header_style="bold")
    table.columns[0].no_wrap = True
    for name, row in shown.iterrows():
        table.add_row(escape(str(name)), *(f"{float(value):.4g}" for value in row))
    out.print(table)
    if len(summary) > len(shown):
        out.print(f"... and {len(summary) - len(shown)} scalars more")
    out.print(_headline(attributes), highlight=False, soft_wrap=True)
    if attributes.get("choice"):
        out.print(escape(attributes["choice"]), highlight=False, soft_wrap=True)
    out.print(escape(attributes["verdict"]), style="bold", highlight=False, soft_wrap=True)
    if out_file:
        out.print(f"Saved to {escape(str(out_file))}", highlight=False, soft_wrap=True)


def print_json(record: Any) -> None:
    """One JSON object, with null for NaN and infinity."""
    from ..cells import finite

    print(json.dumps(finite(record), allow_nan=False))


def _headline(attributes: dict[str, Any]) -> str:
    cost = f"{attributes['gradient_evaluations']:,} gradients, {attributes['seconds']:.1f} s"
    if "log_evidence" not in attributes:
        return cost
    constant = "" if attributes["log_evidence_normalized"] else " up to a constant"
    return (
        f"log evidence {attributes['log_evidence']:.3f} ± {attributes['log_evidence_se']:.3f}{constant}, "
        f"k-hat {attributes['khat']:.2f}, {cost}"
    )
