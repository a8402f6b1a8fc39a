"""What a batch of gradients costs through Target, against the plainest loop in C over the same function.

For each model and batch size, in one run: the loop in C over ``bs_log_density_gradient``
(``dais_plain_loop``), Target on one thread, and Target on two. Repetitions of the three alternate, so that
what else the machine does falls on all of them, and the quickest of each is reported.

    python benchmarks/gradient_floor.py [--full] [--engine auto] [--out results.json]
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from dais_stan import resources
from dais_stan.engines.batch import NativeBatch
from dais_stan.target import Target

MODELS = ("eight_schools_noncentered", "logistic_regression")
SIZES = (1, 16, 256)
RESULTS = Path(__file__).with_name("results") / "gradient_floor.json"


def plain_loop(target: Target, z: np.ndarray) -> Callable[[], None]:
    """The C loop over the points z (N, D), as a function without arguments."""
    batch = target._batch
    if not isinstance(batch, NativeBatch):
        raise SystemExit("This benchmark needs a C++ compiler.")
    arrays = (z, np.empty(len(z)), np.empty(z.shape))
    # data_as() gives pointers that keep their arrays alive.
    pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in arrays]
    return lambda: batch.library.dais_plain_loop(batch.address, len(z), *pointers)


def quickest(calls: dict[str, Callable[[], Any]], seconds: float, rounds: int) -> dict[str, float]:
    """Seconds of one call of each, the quickest of alternating rounds that take about ``seconds`` in all."""
    best = {}
    repeats = {}
    for name, call in calls.items():
        call()
        start = time.perf_counter()
        call()
        best[name] = time.perf_counter() - start
        repeats[name] = max(1, int(seconds / rounds / len(calls) / best[name]))
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            for _ in range(repeats[name]):
                call()
            best[name] = min(best[name], (time.perf_counter() - start) / repeats[name])
    return best


def measure(model: str, engine: str, seconds: float, rounds: int) -> list[dict[str, Any]]:
    """One row for each batch size."""
    program, data = (resources.stan_models() / f"{model}{suffix}" for suffix in (".stan", ".data.json"))
    one, two = (Target.from_stan(program, data=data, engine=engine, threads=n) for n in (1, 2))
    rows = []
    for size in SIZES:
        z = np.random.default_rng(1).normal(0, 0.1, (size, one.dim))
        calls: dict[str, Callable[[], Any]] = {
            "loop_in_c": plain_loop(one, z),
            "one_thread": lambda z=z: one.log_density_gradient(z),
            "two_threads": lambda z=z: two.log_density_gradient(z),
        }
        best = quickest(calls, seconds, rounds)
        rows.append(
            {
                "model": model,
                "dim": one.dim,
                "engine": one.engine,
                "batch": size,
                **{f"{name}_us": 1e6 * value for name, value in best.items()},
                "point_in_c_us": 1e6 * best["loop_in_c"] / size,
                "ratio_to_c": best["one_thread"] / best["loop_in_c"],
                "speedup_of_two_threads": best["one_thread"] / best["two_threads"],
            }
        )
    return rows


def show(rows: list[dict[str, Any]]) -> None:
    """Print the table."""
    table = Table(title="Gradients of a batch: microseconds a call")
    for heading in ("model", "batch", "loop in C", "Target", "ratio", "2 threads", "speed-up"):
        table.add_column(heading, justify="left" if heading == "model" else "right", no_wrap=True)
    for row in rows:
        table.add_row(
            row["model"],
            str(row["batch"]),
            f"{row['loop_in_c_us']:.1f}",
            f"{row['one_thread_us']:.1f}",
            f"{row['ratio_to_c']:.2f}",
            f"{row['two_threads_us']:.1f}",
            f"{row['speedup_of_two_threads']:.2f}",
        )
    Console(width=100).print(table)


def main() -> None:
    """Measure, print, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--quick", action="store_true", help="about 6 s a model (the default)")
    length.add_argument("--full", action="store_true", help="about 30 s a model")
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    seconds, rounds = (10.0, 100) if arguments.full else (2.0, 40)
    rows = [row for model in MODELS for row in measure(model, arguments.engine, seconds, rounds)]
    show(rows)
    machine = {"platform": platform.platform(), "processor": platform.machine(), "cpus": os.cpu_count()}
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps({"machine": machine, "rows": rows}, indent=2))


if __name__ == "__main__":
    main()
