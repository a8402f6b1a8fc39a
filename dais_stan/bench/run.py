"""One cell of the benchmark: a method on a posterior with a seed, held against the reference."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from .. import cells
from ..cells import Cell, Row, Told
from ..posteriordb import Reference, available, find, open_folder
from .methods import FITS, METHODS, compile_for, run_method
from .outcome import Budget, Outcome

logger = logging.getLogger("dais_stan")

#: What ``make bench`` runs: eight posteriors whose data is shipped, in a minute or two each.
QUICK = (
    "arK-arK",
    "arma-arma11",
    "eight_schools-eight_schools_centered",
    "eight_schools-eight_schools_noncentered",
    "garch-garch11",
    "gp_pois_regr-gp_regr",
    "sblrc-blr",
    "sblri-blr",
)


def run_benchmark(
    out: Path,
    *,
    posteriors: Sequence[str] | None = None,
    methods: Sequence[str] = METHODS,
    seeds: int = 3,
    budget: str | None = None,
    engine: str = "auto",
    folder: Path | None = None,
    executor: str = "processes",
    workers: int = 1,
    told: Told | None = None,
) -> list[Row]:
    """Rows of every posterior, method and seed, in that order; ``out`` keeps what is finished.

    ``posteriors`` None: all that have one of our programs, data and a reference in ``folder`` or shipped.
    Raises ValueError for an unknown posterior or method, or where there is none.
    """
    source = open_folder(folder)
    names = available(source) if posteriors is None else list(dict.fromkeys(posteriors))
    methods = list(dict.fromkeys(methods))
    if not names or not methods:
        raise ValueError(f"posteriors and methods must name at least one each, found {names} and {methods}")
    for name in names:
        find(name, source)
    if unknown := [method for method in methods if method not in METHODS]:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, found {', '.join(unknown)}")
    if seeds < 1:
        raise ValueError(f"seeds must be at least 1, found {seeds}")
    Budget.parse(budget)
    todo = [
        {"posterior": name, "method": method, "seed": seed, "engine": engine, "budget": budget}
        for name in names
        for method in methods
        for seed in range(1, seeds + 1)
    ]
    run = partial(run_cell, folder=None if folder is None else str(folder))
    place = {name: i for i, name in enumerate(names)}
    with_cmdstan = next((cell for cell in todo if cell["method"] not in FITS), None)

    def order(cell: Cell) -> tuple[int, ...]:
        """Neighbours are of different posteriors: no worker waits while another compiles its program.

        The first cell that needs CmdStan, which takes longest to compile, is begun before all others.
        """
        group, within = divmod(place[cell["posterior"]], workers)
        return int(cell != with_cmdstan), group, methods.index(cell["method"]), cell["seed"], within

    return cells.run_cells(
        "posteriordb", todo, run, out, executor=executor, workers=workers, told=told, order=order
    )


def run_cell(cell: Cell, folder: str | None = None) -> Row:
    """The row of one cell. Whatever goes wrong is in its ``failure``, so that the others go on."""
    try:
        return _measure(cell, folder)
    except Exception as error:
        logger.debug("%s", cell, exc_info=True)
        return {"failure": f"{type(error).__name__}: {' '.join(str(error).split())}"}


def _measure(cell: Cell, folder: str | None) -> Row:
    posterior = find(cell["posterior"], open_folder(folder))
    began = time.perf_counter()
    target = posterior.target(cell["engine"])
    compile_for(cell["method"], target)
    compiling = time.perf_counter() - began
    outcome = run_method(cell["method"], target, cell["seed"], Budget.parse(cell["budget"]))
    return {
        "failure": None,
        "dim": target.dim,
        **_costs(outcome),
        "compile_seconds": compiling,
        **(errors(outcome.draws, posterior.reference) if posterior.reference else {}),
    }


def _costs(outcome: Outcome) -> Row:
    return {
        "gradients": outcome.gradients,
        "evaluations": outcome.evaluations,
        "run_seconds": outcome.seconds,
        "khat": outcome.khat,
        "log_evidence": outcome.log_evidence,
        "log_evidence_se": outcome.log_evidence_se,
        "warned": outcome.warned,
        "said": outcome.said,
    }


def errors(draws: dict[str, NDArray], reference: Reference) -> dict[str, Any]:
    """Errors of draws of scalars (n,), for those that the reference has too and that vary in it.

    Of means (mean - ref) / sd_ref, of spreads log(sd / sd_ref), and 1-Wasserstein distances in units of
    sd_ref where the reference has draws. ``scalars`` holds mean error, log sd ratio and distance of each.
    Raises ValueError where there is no such scalar.
    """
    index = {name: i for i, name in enumerate(reference.names) if name in draws and reference.sd[i] > 0}
    if not index:
        raise ValueError("draws and reference have no scalar in common")
    rows = {name: _errors_of_one(draws[name], reference, i) for name, i in index.items()}
    table = np.abs(
        np.array([[np.nan if x is None else x for x in row] for row in rows.values()], dtype=float)
    )
    worst, mean = table.max(axis=0).tolist(), table.mean(axis=0).tolist()
    return {
        "reference": reference.source,
        "worst_mean_error": worst[0],
        "average_mean_error": mean[0],
        "worst_log_sd": worst[1],
        "average_log_sd": mean[1],
        "worst_wasserstein": worst[2],
        "average_wasserstein": mean[2],
        "scalars": {name: list(row) for name, row in rows.items()},
    }


def _errors_of_one(values: NDArray, reference: Reference, i: int) -> tuple[float, float, float | None]:
    sd = reference.sd[i]
    with np.errstate(divide="ignore"):
        spread = float(np.log(values.std() / sd))
    distance = None
    if reference.draws is not None:
        distance = float(stats.wasserstein_distance(values, reference.draws[:, i]) / sd)
    return float((values.mean() - reference.mean[i]) / sd), spread, distance
