"""The command line: one file a command."""

from __future__ import annotations

import logging
import warnings
from typing import Annotated

import typer

from .. import __version__
from ..errors import DaisStanError
from .bench import app as bench
from .common import fail, out, show_warning
from .compare import compare
from .doctor import doctor
from .fit import fit
from .mix import mix
from .reference import reference
from .report import report
from .sample import sample

app = typer.Typer(
    name="dais-stan",
    help="Approximate the posterior of a Stan program, and say how far to trust it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (fit, sample, mix, compare, reference, report, doctor):
    app.command()(command)
app.add_typer(bench, name="bench")


def main() -> None:
    """Entry point: user errors become one sentence on standard error and exit status 2."""
    warnings.showwarning = show_warning
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    try:
        app()
    except (DaisStanError, ValueError) as error:
        fail(str(error))
    except OSError as error:
        fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))


def _print_version(asked: bool) -> None:
    if asked:
        out.print(f"dais-stan {__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Approximate the posterior of a Stan program, and say how far to trust it."""
