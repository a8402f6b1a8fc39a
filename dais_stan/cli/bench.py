"""dais-stan bench posteriordb: every method against reference posteriors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from .common import EngineName, Quiet, err, log_steps, out
from .reference import Clone

app = typer.Typer(help="Benchmarks.", no_args_is_help=True)


@app.callback()
def _benchmarks() -> None:
    """Benchmarks."""


@app.command()
def posteriordb(
    out_folder: Annotated[Path, typer.Option("--out", metavar="DIR", help="Keeps rows as they finish.")],
    posteriors: Annotated[
        str, typer.Option(help="Names, joined by commas; quick: eight that are shipped; all that there are.")
    ] = "all",
    methods: Annotated[str, typer.Option(help="Names, joined by commas, or all.")] = "all",
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each method on each posterior.")] = 3,
    budget: Annotated[
        str | None, typer.Option(help="A run over it fails: gradients, as 20000, or seconds, as 60s.")
    ] = None,
    posteriordb: Clone = None,
    executor: Annotated[str, typer.Option(help="processes, threads or dask://HOST:PORT.")] = "processes",
    workers: Annotated[int, typer.Option(min=1, help="Processes or threads.")] = 1,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with what DIR holds.")] = False,
    engine: EngineName = "auto",
    quiet: Quiet = False,
) -> None:
    """Run methods on posteriors with a reference: errors, warnings, costs. One JSON, one table."""
    from ..bench.methods import METHODS
    from ..bench.run import QUICK, run_benchmark
    from ..bench.summary import HEADINGS, table, to_markdown

    log_steps(quiet)
    if (out_folder / "posteriordb.cells.jsonl").exists() and not resume:
        raise ValueError(
            f"--out {out_folder} holds a benchmark: add --resume to go on, or name another folder"
        )
    rows = run_benchmark(
        out_folder,
        posteriors=None if posteriors == "all" else QUICK if posteriors == "quick" else _listed(posteriors),
        methods=METHODS if methods == "all" else _listed(methods),
        seeds=seeds,
        budget=budget,
        engine=engine,
        folder=posteriordb,
        executor=executor,
        workers=workers,
        told=None if quiet else _tell,
    )
    (out_folder / "posteriordb.md").write_text(to_markdown(rows), encoding="utf-8")
    chosen = [0, 1, 2, 3, 6, 7, 8]  # what fits on a line; the Markdown has every column
    shown = Table(*(HEADINGS[i] for i in chosen), box=None, header_style="bold")
    for line in table(rows):
        shown.add_row(*(escape(line[i]) for i in chosen))
    out.print(shown)
    out.print(f"Saved to {escape(str(out_folder / 'posteriordb.json'))}", highlight=False, soft_wrap=True)


def _listed(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _tell(done: int, of: int, cell: dict[str, Any], row: dict[str, Any]) -> None:
    if row["failure"]:
        found = f"failed: {row['failure']}"
    elif row.get("worst_mean_error") is None or row["worst_log_sd"] is None:
        found = "done"
    else:
        found = f"means within {row['worst_mean_error']:.3f}, log sds within {row['worst_log_sd']:.3f}"
    text = f"{done}/{of} {cell['posterior']} {cell['method']} seed {cell['seed']}: {found}"
    err.print(escape(text), highlight=False, soft_wrap=True)
