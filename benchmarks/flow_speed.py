"""What a Sylvester layer costs beside the matrix products that it cannot do without.

Forward and pullback of one orthogonal Sylvester flow (D = 64, M = 16) on 256 points, against a bare sequence
of the products of the same shapes: the target is at most twice their time. Bjorck's iteration, which depends
on the parameters and not on the points, is counted on both sides by its own products.

    python benchmarks/flow_speed.py
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from study import Cell, Row, arguments, markdown, run_cells, write_report

from dais_stan.families.flows import Flow, FlowParams, OrthogonalSylvester
from dais_stan.families.flows.sylvester import Sylvester

POINTS, DIM, COLUMNS = 256, 64, 16


def best_seconds(first: Callable[[], Any], second: Callable[[], Any], times: int) -> tuple[float, float]:
    """Least time of each of two calls, by turns: what a busy machine adds is left out of both."""
    best = [np.inf, np.inf]
    for _ in range(times):
        for i, call in enumerate((first, second)):
            began = time.perf_counter()
            call()
            best[i] = min(best[i], time.perf_counter() - began)
    return best[0], best[1]


def moved_params(flow: Flow, rng: np.random.Generator) -> FlowParams:
    """Parameters some way off the start, as in the middle of a fit."""
    start = flow.initial(rng)
    return start._replace(own=start.own + 0.1 * rng.standard_normal(len(start.own)))


def layer(rng: np.random.Generator) -> tuple[Callable[[], Any], int]:
    """Forward and pullback, matrices included, and the number of Bjorck's steps in it."""
    flow: Sylvester = OrthogonalSylvester(DIM, COLUMNS)
    params = moved_params(flow, rng)
    z, z_bar, ones = (*rng.standard_normal((2, POINTS, DIM)), np.ones(POINTS))

    def call() -> None:
        state = flow.prepare(params)
        passed = flow.forward(state, z)
        flow.pullback(state, passed.tape, z_bar, ones)

    return call, len(flow.prepare(params).basis.steps)


def products(rng: np.random.Generator, steps: int) -> Callable[[], Any]:
    """The products alone, of the same arrays: four with Q, four with R or R~, gradients, and Bjorck's."""
    q, r = rng.standard_normal((DIM, COLUMNS)), rng.standard_normal((COLUMNS, COLUMNS))
    z, z_bar = rng.standard_normal((2, POINTS, DIM))

    def for_basis() -> None:
        for _ in range(steps):
            q.T @ q  # forward
            q @ r
            q.T @ q  # pullback
            q @ r
            q @ r

    def call() -> tuple[Any, ...]:
        for_basis()
        v = z @ q  # into the subspace
        t = v @ r  # R~
        y = t @ r  # R
        moved = y @ q.T  # and back
        y_bar = z_bar @ q
        shift_bar = y_bar @ r  # R's transpose
        v_bar = shift_bar @ r  # R~'s transpose
        r_bars = y_bar.T @ t, shift_bar.T @ v
        q_bars = z.T @ v_bar, z_bar.T @ y
        return moved, v_bar @ q.T, r_bars, q_bars

    return call


def run(cell: Cell) -> Row:
    """Times of both, and their ratio."""
    # The C library keeps what is freed once it has freed as much, as any fit has: without this, most of the
    # time of both sides is that of asking the kernel for the same pages in every call.
    np.empty(1 << 21)
    rng = np.random.default_rng(cell["seed"])
    call, steps = layer(rng)
    bare = products(rng, steps)
    with_layer, without = best_seconds(call, bare, cell["times"])
    return {"layer": with_layer, "products": without, "ratio": with_layer / without, "steps": steps}


def main() -> None:
    """Run, and write JSON and table."""
    options = arguments(__doc__ or "").parse_args()
    times = 20_000 if options.full else 2_000
    cells = [{"seed": seed, "times": times} for seed in range(options.seeds or 3)]
    rows = run_cells("flow_speed", cells, run, options)
    lines = [
        (row["seed"], f"{row['layer'] * 1e6:.0f}", f"{row['products'] * 1e6:.0f}", f"{row['ratio']:.2f}")
        for row in rows
    ]
    table = markdown(("seed", "layer, us", "its products, us", "ratio"), lines)
    write_report(
        "flow_speed", f"# A Sylvester layer, D = {DIM}, M = {COLUMNS}, {POINTS} points\n\n{table}", options
    )


if __name__ == "__main__":
    main()
