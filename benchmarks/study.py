"""What every benchmark shares: cells run by an executor, results that resume, JSON, Markdown tables.

A benchmark is a list of cells (dicts of plain values, one run each) and a function from a cell to its
figures. Finished cells are appended to ``NAME.cells.jsonl`` at once; running the same command again does only
what is missing.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from dais_stan import cells
from dais_stan.bench.summary import markdown as markdown
from dais_stan.cells import Cell, Row

RESULTS = Path(__file__).with_name("results")
console = Console(stderr=True)


def arguments(description: str) -> argparse.ArgumentParser:
    """The options of every benchmark."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--quick", action="store_true", help="a few minutes (the default)")
    length.add_argument("--full", action="store_true", help="the published settings")
    parser.add_argument("--seeds", type=int, default=None, help="runs of each cell")
    parser.add_argument("--iterations", type=int, default=None, help="iterations of a run, to try it out")
    parser.add_argument("--workers", type=int, default=1, help="processes on this machine")
    parser.add_argument("--executor", default="processes", help=cells.EXECUTORS)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--fresh", action="store_true", help="forget the cells that are done")
    return parser


def run_cells(
    name: str, todo: Sequence[Cell], run: Callable[[Cell], Row], options: argparse.Namespace
) -> list[Row]:
    """Rows of all cells in their order, by the options' executor; see ``dais_stan.cells.run_cells``."""
    if options.fresh:
        (options.out / f"{name}.cells.jsonl").unlink(missing_ok=True)

    def told(done: int, of: int, cell: Cell, row: Row) -> None:
        _say(f"{name} {done}/{of}: {_describe(cell)} in {row['seconds']:.1f} s")

    return cells.run_cells(
        name, todo, run, options.out, executor=options.executor, workers=options.workers, told=told
    )


def _say(text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def _describe(cell: Cell) -> str:
    return " ".join(f"{key}={value}" for key, value in cell.items())


def group(rows: Iterable[Row], *keys: str) -> dict[tuple[Any, ...], list[Row]]:
    """Rows by the values of ``keys``."""
    out: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        out.setdefault(tuple(row[key] for key in keys), []).append(row)
    return out


def mean_and_sd(values: Sequence[float]) -> str:
    """Mean and standard deviation over seeds as in the published tables, such as 4.84e-02 ± 1.0e-05."""
    spread = f" ± {np.std(values, ddof=1):.1e}" if len(values) > 1 else ""
    return f"{np.mean(values):.2e}{spread}"


def write_report(name: str, text: str, options: argparse.Namespace) -> None:
    """Write NAME.md and print it."""
    (options.out / f"{name}.md").write_text(text)
    Console().print(text, markup=False, highlight=False, soft_wrap=True)
