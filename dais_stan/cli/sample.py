"""dais-stan sample: the posterior by CmdStan's NUTS."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .common import Data, Json, Model, Quiet, Seed, err, log_steps, report, writable


def sample(
    model: Model,
    data: Data = None,
    seed: Seed = None,
    out_file: Annotated[
        Path | None, typer.Option("--out", metavar="NUTS.nc", help="Where to save the draws.")
    ] = None,
    chains: Annotated[int, typer.Option(min=1)] = 4,
    iter_warmup: Annotated[int, typer.Option(min=0)] = 1000,
    iter_sampling: Annotated[int, typer.Option(min=1)] = 1000,
    adapt_delta: Annotated[float, typer.Option(min=0, max=1)] = 0.8,
    max_treedepth: Annotated[int, typer.Option(min=1)] = 10,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Sample the posterior with CmdStan's NUTS, through CmdStanPy."""
    from ..nuts import sample as run
    from ..target import Target

    log_steps(quiet)
    writable(out_file, model, data)
    result = run(
        Target.from_stan(model, data=data),
        chains=chains,
        seed=seed,
        iter_warmup=iter_warmup,
        iter_sampling=iter_sampling,
        adapt_delta=adapt_delta,
        max_treedepth=max_treedepth,
        show_progress=err.is_terminal and not quiet,
    )
    groups = result.save(out_file) if out_file else result.groups()
    report(result.attributes(), groups["posterior"], "all", out_file, quiet, as_json)
