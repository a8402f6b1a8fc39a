"""dais-stan reference: make a reference posterior by long NUTS."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from .common import EngineName, Quiet, log_steps, out, writable

Clone = Annotated[
    Path | None,
    typer.Option(
        "--posteriordb",
        metavar="PATH",
        help="Your clone of posteriordb (or POSTERIOR_DB_PATH), for data and references.",
    ),
]


def reference(
    name: Annotated[str, typer.Argument(metavar="NAME", help="DATA-MODEL, as posteriordb calls it.")],
    out_file: Annotated[
        Path | None, typer.Option("--out", metavar="REF.json", help="NAME.json here.")
    ] = None,
    posteriordb: Clone = None,
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 2)] = 1,
    parallel_chains: Annotated[int | None, typer.Option(min=1, help="Chains at a time.")] = None,
    engine: EngineName = "auto",
    quiet: Quiet = False,
) -> None:
    """Run ten long chains of NUTS to posteriordb's standard, and keep moments, errors and diagnostics."""
    from ..posteriordb import find, open_folder
    from ..reference import make_reference

    log_steps(quiet)
    out_file = writable(out_file or Path(f"{name}.json")) or Path()
    record = make_reference(find(name, open_folder(posteriordb)), seed, engine, parallel_chains)
    out_file.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    if not quiet:
        worst, settings = max(record["rhat"]), record["sampler"]
        out.print(
            f"{name}: {len(record['parameter_names'])} scalars, R-hat at most {worst:.4f}, thinned by "
            f"{settings['thin']}, {record['gradient_evaluations']:,} gradients. Saved to {out_file}",
            highlight=False,
            soft_wrap=True,
        )
