"""What every benchmark shares: cells run by an executor, results that resume, JSON, Markdown tables.

A benchmark is a list of cells (dicts of plain values, one run each) and a function from a cell to its
figures. Finished cells are appended to ``NAME.cells.jsonl`` at once; running the same command again does only
what is missing.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

Cell = dict[str, Any]
Row = dict[str, Any]
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
    parser.add_argument("--dask", metavar="ADDRESS", help="scheduler of a Dask cluster to run on instead")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--fresh", action="store_true", help="forget the cells that are done")
    return parser


@contextmanager
def executor(options: argparse.Namespace) -> Iterator[Executor | None]:
    """Processes here, a Dask cluster's executor, or None: this process."""
    if options.dask:
        from distributed import Client

        with Client(options.dask) as client:
            yield client.get_executor()
    elif options.workers > 1:
        with ProcessPoolExecutor(options.workers) as pool:
            yield pool
    else:
        yield None


def _key(cell: Cell) -> str:
    return json.dumps(cell, sort_keys=True)


def _timed(run: Callable[[Cell], Row], cell: Cell) -> Row:
    began = time.perf_counter()
    with warnings.catch_warnings():
        # What fits warn of, k-hat above all, is in the tables' numbers: these methods are meant to be off.
        warnings.simplefilter("ignore")
        return {**run(cell), "seconds": time.perf_counter() - began}


def run_cells(
    name: str, cells: Sequence[Cell], run: Callable[[Cell], Row], options: argparse.Namespace
) -> list[Row]:
    """Rows (cell and figures) of all cells, in the order of ``cells``; those done before are not run again.

    ``run`` must be a function of a module, so that it can be sent to another process.
    """
    options.out.mkdir(parents=True, exist_ok=True)
    log = options.out / f"{name}.cells.jsonl"
    if options.fresh:
        log.unlink(missing_ok=True)
    done: dict[str, Row] = {}
    if log.exists():
        for line in log.read_text().splitlines():
            record = json.loads(line)
            done[_key(record["cell"])] = record["row"]
    missing = [cell for cell in cells if _key(cell) not in done]
    console.print(
        f"{name}: {len(cells) - len(missing)} of {len(cells)} cells done before",
        highlight=False,
        soft_wrap=True,
    )
    with executor(options) as pool, log.open("a") as file:
        for cell, row in _finished(pool, missing, run):
            done[_key(cell)] = row
            file.write(json.dumps({"cell": cell, "row": row}) + "\n")
            file.flush()
            console.print(
                f"{name}: {_describe(cell)} in {row['seconds']:.1f} s", highlight=False, soft_wrap=True
            )
    rows = [{**cell, **done[_key(cell)]} for cell in cells]
    machine = {"platform": platform.platform(), "processor": platform.machine(), "cpus": os.cpu_count()}
    (options.out / f"{name}.json").write_text(json.dumps({"machine": machine, "rows": rows}, indent=1))
    return rows


def _say(text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def _finished(
    pool: Executor | None, cells: Iterable[Cell], run: Callable[[Cell], Row]
) -> Iterator[tuple[Cell, Row]]:
    if pool is None:
        for cell in cells:
            yield cell, _timed(run, cell)
        return
    waiting: dict[Future[Row], Cell] = {pool.submit(_timed, run, cell): cell for cell in cells}
    for future in as_completed(waiting):
        yield waiting[future], future.result()


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


def markdown(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table in Markdown."""
    lines = [list(map(str, headings)), ["---"] * len(headings), *(list(map(str, row)) for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def write_report(name: str, text: str, options: argparse.Namespace) -> None:
    """Write NAME.md and print it."""
    (options.out / f"{name}.md").write_text(text)
    Console().print(text, markup=False, highlight=False, soft_wrap=True)
