"""The command line: dais-stan doctor | fit | sample | compare."""

from __future__ import annotations

import json
import logging
import math
import secrets
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from . import __version__
from .errors import DaisStanError

app = typer.Typer(
    name="dais-stan",
    help="Approximate the posterior of a Stan program, and say how far to trust it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
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


def main() -> None:
    """Entry point: user errors become one sentence on standard error and exit status 2."""
    warnings.showwarning = _show_warning
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    try:
        app()
    except (DaisStanError, ValueError) as error:
        _fail(str(error))
    except OSError as error:
        _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))


def _fail(message: str) -> NoReturn:
    err.print(f"[bold red]Error:[/] {escape(message)}", highlight=False, soft_wrap=True)
    sys.exit(2)


def _show_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    if not issubclass(category, FutureWarning | DeprecationWarning):
        err.print(f"[yellow]Warning:[/] {escape(str(message))}", highlight=False, soft_wrap=True)


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


def _writable(path: Path | None, option: str = "--out") -> Path | None:
    """Find out before an hour of work, not after it, that the result cannot be written."""
    if path is None:
        return None
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


def _log_steps(quiet: bool) -> None:
    """Say on standard error what takes long or went another way than usual."""
    logging.getLogger("dais_stan").setLevel(logging.WARNING if quiet else logging.INFO)


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


@app.command()
def fit(
    model: Model,
    data: Data = None,
    method: Annotated[str, typer.Option(help="meanfield, fullrank, iwvi, dais0, dais or msc.")] = "fullrank",
    seed: Seed = None,
    out_file: Annotated[
        Path | None, typer.Option("--out", metavar="FIT.nc", help="Where to save the fit.")
    ] = None,
    start: Annotated[str | None, typer.Option(help="mode (the default), pathfinder or zero.")] = None,
    draws_per_step: Annotated[
        int | None, typer.Option(help="Draws in each gradient estimate (meanfield, fullrank).")
    ] = None,
    particles: Annotated[int | None, typer.Option(help="N (iwvi, dais0, dais, msc).")] = None,
    transitions: Annotated[int | None, typer.Option(help="K (dais0, dais).")] = None,
    chains: Annotated[int | None, typer.Option(help="Chains that share q (msc).")] = None,
    family: Annotated[
        str | None, typer.Option(help="meanfield or fullrank, of q (iwvi, msc) or q0 (dais0, dais).")
    ] = None,
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
    from .fitting import fit as run
    from .methods import make_method
    from .target import Target

    _log_steps(quiet)
    given = {
        "draws_per_step": draws_per_step,
        "particles": particles,
        "transitions": transitions,
        "chains": chains,
        "family": family,
    }
    options = {name: value for name, value in given.items() if value is not None}
    schedule = make_method(method, preset, **options).schedule
    if max_iterations:
        schedule = replace(schedule, max_iterations=max_iterations)
    _writable(out_file)
    checkpoint = out_file.with_name(out_file.name + ".checkpoint") if out_file else None
    if resume and checkpoint is None:
        raise ValueError("--resume needs --out: the checkpoint stands beside that file")
    seed = secrets.randbelow(2**31) if seed is None else seed
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
        if out_file and checkpoint:
            result.save(out_file, n=draws)
            checkpoint.unlink(missing_ok=True)
    posterior = result.groups(draws)["posterior"]
    _report(result.attributes(), posterior, "stats", out_file, quiet, as_json)


@contextmanager
def _told_how_to_resume(checkpoint: Path | None, seed: int) -> Iterator[None]:
    """A run that is interrupted, or cannot be saved, leaves its checkpoint and says how to go on from it."""
    try:
        yield
    except (KeyboardInterrupt, OSError) as stopped:
        if isinstance(stopped, OSError):
            err.print(f"[bold red]Error:[/] {escape(str(stopped))}", highlight=False, soft_wrap=True)
        if checkpoint and checkpoint.exists():
            text = f"Stopped. To go on from {checkpoint}, repeat the command with --resume --seed {seed}"
        else:
            text = "Stopped before there was a checkpoint to go on from."
        err.print(escape(text), highlight=False, soft_wrap=True)
        raise typer.Exit(130 if isinstance(stopped, KeyboardInterrupt) else 2) from None


@app.command()
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
    from .nuts import sample as run
    from .target import Target

    _log_steps(quiet)
    _writable(out_file)
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
    if out_file:
        result.save(out_file)
    _report(result.attributes(), result.groups()["posterior"], "all", out_file, quiet, as_json)


def _report(
    attributes: dict[str, Any], posterior: Any, kind: str, out_file: Path | None, quiet: bool, as_json: bool
) -> None:
    """Print what was found: one JSON object, or a table of scalars, the record and the verdict."""
    from . import arviz_io

    if quiet and not as_json:
        return
    summary = arviz_io.summary(posterior, kind)
    if as_json:
        rows = summary.astype(float).to_dict(orient="index")
        _print_json({**attributes, "out": str(out_file) if out_file else None, "summary": rows})
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
    out.print(escape(attributes["verdict"]), style="bold", highlight=False, soft_wrap=True)
    if out_file:
        out.print(f"Saved to {escape(str(out_file))}", highlight=False, soft_wrap=True)


def _print_json(record: Any) -> None:
    print(json.dumps(_finite(record), allow_nan=False))


def _finite(value: Any) -> Any:
    """JSON has no NaN and no infinity: null stands for them."""
    if isinstance(value, dict):
        return {str(key): _finite(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _headline(attributes: dict[str, Any]) -> str:
    cost = f"{attributes['gradient_evaluations']:,} gradients, {attributes['seconds']:.1f} s"
    if "log_evidence" not in attributes:
        return cost
    constant = "" if attributes["log_evidence_normalized"] else " up to a constant"
    return (
        f"log evidence {attributes['log_evidence']:.3f} ± {attributes['log_evidence_se']:.3f}{constant}, "
        f"k-hat {attributes['khat']:.2f}, {cost}"
    )


@app.command()
def compare(
    a: Annotated[Path, typer.Argument(metavar="A.nc")],
    b: Annotated[Path, typer.Argument(metavar="B.nc", help="The reference.")],
    picture: Annotated[Path | None, typer.Option(help="Draw both marginals into this file.")] = None,
    as_json: Json = False,
) -> None:
    """Compare two results, B being the reference: standardised errors of means and sds, and a verdict."""
    from . import arviz_io
    from .comparison import compare as run

    _writable(picture, "--picture")
    posteriors = [arviz_io.read(path)["posterior"] for path in (a, b)]
    result = run(*posteriors)
    if picture:
        from . import plots

        labels = ("A", "B") if a == b else (a.stem, b.stem) if a.stem != b.stem else (str(a), str(b))
        plots.save(plots.marginals(dict(zip(labels, posteriors, strict=True))), picture)
    if as_json:
        _print_json(result.to_dict())
        return
    headings = ["", "mean A", "mean B", "(mean A - mean B) / sd B", "sd A", "sd B", "log(sd A / sd B)"]
    table = Table(*headings, box=None, header_style="bold")
    columns = (result.mean_a, result.mean_b, result.mean_error, result.sd_a, result.sd_b, result.log_sd_ratio)
    for name, *row in zip(result.names, *columns, strict=True):
        table.add_row(escape(name), *(f"{float(value):.3g}" for value in row))
    out.print(table)
    out.print(escape(result.verdict()), style="bold", highlight=False, soft_wrap=True)


@app.command()
def doctor(as_json: Json = False) -> None:
    """Look for Stan, a compiler and a cache; compile and sample a tiny model; say how to mend what fails."""
    from .doctor import diagnose

    findings = []
    for finding in diagnose():
        findings.append(finding)
        if not as_json:
            mark = "[green]ok[/]  " if finding.ok else "[red]no[/]  "
            out.print(f"{mark}{finding.what}: {escape(finding.found)}", highlight=False, soft_wrap=True)
            if finding.mend:
                out.print(f"      mend: {escape(finding.mend)}", highlight=False, soft_wrap=True)
    if as_json:
        _print_json([vars(finding) for finding in findings])
    if not all(finding.ok for finding in findings):
        raise typer.Exit(1)
