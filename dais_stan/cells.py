"""Many independent runs: cells done by any executor, results that survive a killed run and resume.

A cell is a dict of plain values, and its key is those values; a row is what a function made of it. Finished
rows are appended to ``NAME.cells.jsonl`` at once, so that running again does only what is missing, and
``NAME.json`` holds all rows in the order of the cells, whatever the order in which they ended.
"""

from __future__ import annotations

import json
import logging
import math
import multiprocessing
import os
import platform
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import (
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    as_completed,
)
from contextlib import contextmanager
from pathlib import Path
from typing import Any

logger = logging.getLogger("dais_stan")

Cell = dict[str, Any]
Row = dict[str, Any]
#: Told of each finished cell: (finished so far, all, cell, row).
Told = Callable[[int, int, Cell, Row], None]

EXECUTORS = "processes, threads or dask://HOST:PORT"


@contextmanager
def open_executor(kind: str, workers: int) -> Iterator[Executor | None]:
    """ "processes" or "threads" of this machine, a Dask cluster by its address, or None: this very thread.

    One process or thread is this one. Raises ValueError for another kind, or where Dask is not installed.
    """
    if kind.startswith("dask://"):
        try:
            from distributed import Client
        except ImportError as error:
            raise ValueError("a Dask cluster needs Dask: pip install 'dais-stan[cluster]'") from error
        with Client("tcp://" + kind.removeprefix("dask://")) as client, client.get_executor() as pool:
            yield pool
    elif kind not in ("processes", "threads"):
        raise ValueError(f"executor must be {EXECUTORS}, found {kind!r}")
    elif workers == 1:
        yield None
    elif kind == "threads":
        with ThreadPoolExecutor(workers) as pool:
            yield pool
    else:
        with _processes(workers) as pool:
            yield pool


def _processes(workers: int) -> ProcessPoolExecutor:
    """Fresh processes: a fork of one with threads, as BLAS and compiled models have, may hang."""
    return ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), initializer=_no_warnings)


def _no_warnings() -> None:
    """What fits warn of is in the rows; printed once for each cell it would bury what matters."""
    warnings.simplefilter("ignore")


def key(cell: Cell) -> str:
    """What makes two cells the same."""
    return json.dumps(cell, sort_keys=True)


def finished_rows(log: Path) -> dict[str, Row]:
    """Rows by the key of their cell. A line that is none, as a killed run may leave, does not count."""
    rows: dict[str, Row] = {}
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []:
        try:
            record = json.loads(line)
            cell, row = dict(record["cell"]), dict(record["row"])
        except (json.JSONDecodeError, KeyError, TypeError, ValueError):
            continue
        rows[key(cell)] = row
    return rows


def run_cells(
    name: str,
    cells: Sequence[Cell],
    run: Callable[[Cell], Row],
    folder: Path,
    *,
    executor: str = "processes",
    workers: int = 1,
    told: Told | None = None,
    order: Callable[[Cell], Any] | None = None,
) -> list[Row]:
    """Rows (cell and figures) of all cells, in the order of ``cells``; those done before are not run again.

    They are begun in that order, or in that of ``order``'s values.

    ``run`` must be a function of a module, so that it can be sent to another process. An exception of it
    ends the run, with what is finished kept. Where a process dies, as of a crash in compiled code, its cell
    is run once more by itself, and if it dies again its row has a ``failure``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"{name}.cells.jsonl"
    done = finished_rows(log)
    missing = [cell for cell in cells if key(cell) not in done]
    if order is not None:
        missing.sort(key=order)
    if len(missing) < len(cells):
        logger.info("%s: %d of %d cells done before", name, len(cells) - len(missing), len(cells))
    with open_executor(executor, workers) as pool, log.open("a", encoding="utf-8") as file:
        if log.stat().st_size and not log.read_bytes().endswith(b"\n"):
            file.write("\n")
        for cell, row in _finished(pool, missing, run):
            row = finite(row)
            done[key(cell)] = row
            file.write(json.dumps({"cell": cell, "row": row}, allow_nan=False) + "\n")
            file.flush()
            if told:
                told(sum(key(c) in done for c in cells), len(cells), cell, row)
    if others := len(done) - len({key(cell) for cell in cells}):
        logger.info("%s: %d more finished cells, not asked for, stay in %s", name, others, log)
    rows = [{**cell, **done[key(cell)]} for cell in cells]
    write_rows(folder / f"{name}.json", rows)
    return rows


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """JSON of the rows and of the machine that they were measured on."""
    text = json.dumps({"machine": machine(), "rows": rows}, indent=1, allow_nan=False)
    path.write_text(text + "\n", encoding="utf-8")


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    return {"platform": platform.platform(), "processor": platform.machine(), "cpus": os.cpu_count()}


def finite(value: Any) -> Any:
    """The value with None for NaN and infinity, which JSON does not have."""
    if isinstance(value, dict):
        return {str(name): finite(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _timed(run: Callable[[Cell], Row], cell: Cell) -> Row:
    began = time.perf_counter()
    row = run(cell)
    return {**row, "seconds": time.perf_counter() - began}


def _finished(
    pool: Executor | None, cells: Iterable[Cell], run: Callable[[Cell], Row]
) -> Iterator[tuple[Cell, Row]]:
    if pool is None or isinstance(pool, ThreadPoolExecutor):
        with warnings.catch_warnings():
            _no_warnings()
            yield from _here(pool, cells, run)
        return
    lost = []
    waiting: dict[Future[Row], Cell] = {pool.submit(_timed, run, cell): cell for cell in cells}
    for future in as_completed(waiting):
        try:
            yield waiting[future], future.result()
        except BrokenExecutor:
            lost.append(waiting[future])
    for cell in lost:
        with _processes(1) as alone:
            try:
                row = alone.submit(_timed, run, cell).result()
            except BrokenExecutor:
                row = {"failure": "the process that ran it died", "seconds": None}
        yield cell, row


def _here(
    pool: Executor | None, cells: Iterable[Cell], run: Callable[[Cell], Row]
) -> Iterator[tuple[Cell, Row]]:
    if pool is None:
        for cell in cells:
            yield cell, _timed(run, cell)
        return
    waiting = {pool.submit(_timed, run, cell): cell for cell in cells}
    for future in as_completed(waiting):
        yield waiting[future], future.result()
