"""Cells: any executor gives the same rows, and what is finished is neither lost nor done again."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from dais_stan.cells import finished_rows, run_cells

CELLS = [{"x": x} for x in range(6)]


def square(cell: dict) -> dict:
    return {"failure": None, "y": cell["x"] ** 2}


def square_slowly(cell: dict) -> dict:
    """The first cells take longest, so that they end last."""
    time.sleep(0.05 * (6 - cell["x"]))
    return square(cell)


def crash_at_three(cell: dict) -> dict:
    if cell["x"] == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return square(cell)


def fail_at_three(cell: dict) -> dict:
    if cell["x"] == 3:
        raise RuntimeError("no")
    return square(cell)


def note_and_square(cell: dict) -> dict:
    """Leaves a file for each time that it runs."""
    folder = Path(cell["folder"])
    (folder / f"{cell['x']}-{time.time_ns()}").touch()
    time.sleep(0.4)
    return square(cell)


def without_times(rows: list[dict]) -> list[dict]:
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


@pytest.mark.parametrize(("executor", "workers"), [("processes", 1), ("processes", 2), ("threads", 3)])
def test_every_executor_gives_the_same_rows_in_the_same_order(tmp_path, executor, workers) -> None:
    rows = run_cells("t", CELLS, square_slowly, tmp_path, executor=executor, workers=workers)
    assert without_times(rows) == [{"x": x, "failure": None, "y": x * x} for x in range(6)]
    saved = json.loads((tmp_path / "t.json").read_text())
    assert saved["rows"] == rows and saved["machine"]["cpus"]


def test_a_run_that_died_goes_on_where_it_was(tmp_path) -> None:
    with pytest.raises(RuntimeError, match="no"):
        run_cells("t", CELLS, fail_at_three, tmp_path)
    log = tmp_path / "t.cells.jsonl"
    assert len(finished_rows(log)) == 3
    with log.open("a") as file:
        file.write('123\n{"cell": {"x": 3}}\n')  # what no run of ours writes
        file.write('{"cell": {"x": 3}, "ro')  # killed while it wrote
    told = []
    rows = run_cells(
        "t", CELLS, square, tmp_path, told=lambda done, of, cell, row: told.append((done, cell["x"]))
    )
    assert told == [(4, 3), (5, 4), (6, 5)]
    assert [row["y"] for row in rows] == [x * x for x in range(6)]
    assert len(finished_rows(log)) == 6


def test_a_process_that_dies_costs_its_own_cell_only(tmp_path) -> None:
    rows = run_cells("t", CELLS, crash_at_three, tmp_path, workers=2)
    assert [row.get("y") for row in rows] == [0, 1, 4, None, 16, 25]
    assert rows[3]["failure"] == "the process that ran it died"


def test_numbers_that_json_lacks_are_null(tmp_path) -> None:
    rows = run_cells("t", [{"x": 1}], nothing, tmp_path)
    assert rows[0]["y"] is None
    assert "NaN" not in (tmp_path / "t.json").read_text()


def nothing(cell: dict) -> dict:
    return {"y": float("nan")}


def test_an_unknown_executor_is_named(tmp_path) -> None:
    with pytest.raises(ValueError, match="executor must be processes"):
        run_cells("t", CELLS, square, tmp_path, executor="cloud")


def test_a_cluster_that_loses_a_worker_loses_nothing(tmp_path) -> None:
    """Two Dask workers, one killed half-way: every row is there, and no finished cell ran again."""
    distributed = pytest.importorskip("distributed")
    noted = tmp_path / "noted"
    noted.mkdir()
    cells = [{"x": x, "folder": str(noted)} for x in range(12)]
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        address = cluster.scheduler_address.removeprefix("tcp://")
        victim = next(iter(cluster.workers.values()))
        finished: list[int] = []

        def told(done: int, of: int, cell: dict, row: dict) -> None:
            finished.append(cell["x"])
            if done == 4:
                os.kill(victim.pid, signal.SIGKILL)

        rows = run_cells("t", cells, note_and_square, tmp_path, executor=f"dask://{address}", told=told)
    assert [row["y"] for row in rows] == [x * x for x in range(12)]
    assert sorted(finished) == list(range(12))
    again = run_cells("t", cells, crash_at_three, tmp_path)  # nothing is left to run
    assert again == rows


def test_cells_are_begun_in_the_order_asked_for_and_told_in_their_own(tmp_path) -> None:
    begun = []

    def run(cell):
        begun.append(cell["i"])
        return {"twice": 2 * cell["i"]}

    todo = [{"i": i} for i in range(5)]
    rows = run_cells("study", todo, run, tmp_path, order=lambda cell: -cell["i"])
    assert begun == [4, 3, 2, 1, 0]
    assert [row["twice"] for row in rows] == [0, 2, 4, 6, 8]
