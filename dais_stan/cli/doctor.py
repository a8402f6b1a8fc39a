"""dais-stan doctor: whether this machine can do the work, and how to mend what it lacks."""

from __future__ import annotations

import typer
from rich.markup import escape

from .common import Json, out, print_json


def doctor(as_json: Json = False) -> None:
    """Look for Stan, a compiler and a cache; compile and sample a tiny model; say how to mend what fails."""
    from ..doctor import diagnose

    findings = []
    for finding in diagnose():
        findings.append(finding)
        if not as_json:
            mark = "[green]ok[/]  " if finding.ok else "[red]no[/]  "
            out.print(f"{mark}{finding.what}: {escape(finding.found)}", highlight=False, soft_wrap=True)
            if finding.mend:
                out.print(f"      mend: {escape(finding.mend)}", highlight=False, soft_wrap=True)
    if as_json:
        print_json([vars(finding) for finding in findings])
    if not all(finding.ok for finding in findings):
        raise typer.Exit(1)
