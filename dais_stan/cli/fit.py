"""dais-stan fit: a variational approximation of a Stan program's posterior."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from .common import Data, EngineName, Json, Model, Quiet, Seed, Threads, err, log_steps, report, writable


def fit(
    model: Model,
    data: Data = None,
    method: Annotated[
        str, typer.Option(help="auto, meanfield, fullrank, flow, iwvi, dais0, dais or msc.")
    ] = "fullrank",
    seed: Seed = None,
    out_file: Annotated[
        Path | None, typer.Option("--out", metavar="FIT.nc", help="Where to save the fit.")
    ] = None,
    start: Annotated[str | None, typer.Option(help="mode (the default), pathfinder or zero.")] = None,
    draws_per_step: Annotated[
        int | None, typer.Option(help="Draws in each gradient estimate (meanfield, fullrank, flow).")
    ] = None,
    particles: Annotated[int | None, typer.Option(help="N (iwvi, dais0, dais, msc).")] = None,
    transitions: Annotated[int | None, typer.Option(help="K (dais0, dais).")] = None,
    chains: Annotated[int | None, typer.Option(help="Chains that share q (msc).")] = None,
    family: Annotated[
        str | None,
        typer.Option(
            help="Of q, or q0 (dais0, dais): meanfield, fullrank, planar, iaf, o-, h- or t-sylvester."
        ),
    ] = None,
    flows: Annotated[int | None, typer.Option(help="How many flows (a flow's family).")] = None,
    columns: Annotated[int | None, typer.Option(help="M of each flow (o-sylvester).")] = None,
    preset: Annotated[str | None, typer.Option(help="paper: the published settings.")] = None,
    max_iterations: Annotated[int | None, typer.Option(min=1, help="Give up after as many.")] = None,
    importance_draws: Annotated[int | None, typer.Option(min=1, help="Draws for evidence and k-hat.")] = None,
    draws: Annotated[int, typer.Option(min=1, help="Posterior draws in the file.")] = 4000,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from FIT.nc.checkpoint.")] = False,
    engine: EngineName = "auto",
    threads: Threads = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Fit a variational approximation: draws, evidence with its error, k-hat, and a verdict in words."""
    from ..fitting import fit as run
    from ..methods import make_method
    from ..target import Target

    log_steps(quiet)
    given = {
        "draws_per_step": draws_per_step,
        "particles": particles,
        "transitions": transitions,
        "chains": chains,
        "family": family,
        "flows": flows,
        "columns": columns,
    }
    options = {name: value for name, value in given.items() if value is not None}
    # The ladder of "auto" begins with full rank, which has the schedule and the progress to show.
    known = make_method("fullrank") if method == "auto" else make_method(method, preset, **options)
    schedule = known.schedule
    if max_iterations:
        schedule = replace(schedule, max_iterations=max_iterations)
    writable(out_file, model, data)
    checkpoint = out_file.with_name(out_file.name + ".checkpoint") if out_file else None
    if resume and checkpoint is None:
        raise ValueError("--resume needs --out: the checkpoint stands beside that file")
    if seed is None and not resume:  # a resumed run has its seed from the checkpoint
        seed = secrets.randbelow(2**31)
    target = Target.from_stan(model, data=data, engine=engine, threads=threads)
    shown = _objective_progress(schedule.max_iterations, not quiet)
    with _told_how_to_resume(checkpoint, seed), shown as progress:
        result = run(
            target,
            method,
            seed=seed,
            start=start,
            schedule=schedule,
            importance_draws=importance_draws,
            checkpoint=checkpoint,
            resume=resume,
            progress=progress,
            preset=preset,
            **options,
        )
        groups = result.save(out_file, n=draws) if out_file else result.groups(draws)
        if checkpoint:
            checkpoint.unlink(missing_ok=True)
    report(result.attributes(), groups["posterior"], "stats", out_file, quiet, as_json)


@contextmanager
def _told_how_to_resume(checkpoint: Path | None, seed: int | None) -> Iterator[None]:
    """A run that is interrupted, or cannot be saved, leaves its checkpoint and says how to go on from it."""
    try:
        yield
    except (KeyboardInterrupt, OSError) as stopped:
        if isinstance(stopped, OSError):
            err.print(f"[bold red]Error:[/] {escape(str(stopped))}", highlight=False, soft_wrap=True)
        if checkpoint and checkpoint.exists():
            text = f"Stopped. To go on from {checkpoint}, repeat the command with --resume"
            if seed is not None:
                text += f" --seed {seed}"
        else:
            text = "Stopped before there was a checkpoint to go on from."
        err.print(escape(text), highlight=False, soft_wrap=True)
        raise typer.Exit(130 if isinstance(stopped, KeyboardInterrupt) else 2) from None


@contextmanager
def _objective_progress(total: int, shown: bool) -> Iterator[Callable[[int, float, float], None] | None]:
    """A progress bar on a terminal, and nothing elsewhere."""
    if not (shown and err.is_terminal):
        yield None
        return
    columns = (
        TextColumn("objective {task.fields[value]}"),
        BarColumn(),
        TextColumn("{task.completed}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=err, transient=True) as bar:
        task = bar.add_task("fit", total=total, value="...")
        yield lambda done, value, se: bar.update(task, completed=done, value=f"{value:.2f} ± {se:.2f}")
