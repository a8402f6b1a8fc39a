"""Minibatches of a Stan program: models made once for each batch, against what else one could do.

For ``vae_decoder.stan`` and batches of 100 digits: a gradient of a batch whose model is there; making that
model (its data written and read as JSON) for every step, by itself and with all that ``Target`` finds out; a
gradient of all the images. The decoder has 64 hidden units and 16 latent dimensions.

    python benchmarks/minibatches.py
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from study import Cell, Row, arguments, markdown, run_cells, write_report
from sylvester_vae import images

import dais_stan as ds
from dais_stan.data import to_json
from dais_stan.engines import find_engine
from dais_stan.resources import stan_models

PROGRAM = stan_models() / "vae_decoder.stan"


def least_seconds(call: Callable[[], Any], times: int) -> float:
    """Least time of a call, so that a busy machine adds little."""
    best = np.inf
    for _ in range(times):
        began = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - began)
    return best


def run(cell: Cell) -> Row:
    """Seconds of each way."""
    x = images(cell["images"])[0]

    def data(count: int) -> dict[str, Any]:
        return {"N": count, "P": x.shape[1], "L": 16, "H": 64, "x": x[:count]}

    batch, whole = (ds.Target.from_stan(PROGRAM, data=data(n)) for n in (cell["batch"], len(x)))
    assert batch.program is not None and batch.data is not None
    source, program, values = find_engine("auto"), batch.program, batch.data
    rng = np.random.default_rng(1)
    point, points = (0.1 * rng.standard_normal(target.dim) for target in (batch, whole))
    return {
        "gradient": least_seconds(lambda: batch.log_density_gradient(point), cell["times"]),
        "make": least_seconds(lambda: source.open(program, to_json(values), 0), cell["times"]),
        "target": least_seconds(lambda: ds.Target.from_stan(PROGRAM, data=data(cell["batch"])), 5),
        "whole": least_seconds(lambda: whole.log_density_gradient(points), 3),
        "images_of_whole": len(x),
    }


def main() -> None:
    """Run, and write JSON and table."""
    options = arguments(__doc__ or "").parse_args()
    times = 100 if options.full else 20
    cells = [{"images": name, "batch": 100, "times": times} for name in ("digits", "mnist")]
    rows = run_cells("minibatches", cells, run, options)
    names = ("gradient", "make", "target", "whole")
    lines = [(row["images"], *(f"{row[name] * 1e3:.1f}" for name in names)) for row in rows]
    headings = ("images", "gradient of 100", "making their model", "and their Target", "gradient of all")
    write_report("minibatches", "# Milliseconds of a step\n\n" + markdown(headings, lines), options)


if __name__ == "__main__":
    main()
