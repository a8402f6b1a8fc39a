"""What a NUTS gradient of psi costs, against M gradients of the target in the plainest loop in C.

NUTS's time is what CmdStan itself reports of one chain (warmup and sampling, without reading data), divided
by the gradients of psi that it took. The loop in C runs for as long before and after it, over a component's
nodes, and the mean counts.

    python benchmarks/psi_cost.py [--full] [--out FOLDER]
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import study
from gradient_floor import plain_loop

import infmix
from dais_stan import resources
from dais_stan.target import Target

MODELS = ("eight_schools_noncentered", "logistic_regression")
NODES = (16, 64)
LIMIT = 1.25
_ELAPSED = re.compile(r"([\d.e+-]+) seconds \(Total\)")


def run(cell: dict[str, Any]) -> dict[str, Any]:
    """Microseconds of one gradient of psi, and of M gradients of the target."""
    folder = resources.stan_models()
    target = Target.from_stan(folder / f"{cell['model']}.stan", data=folder / f"{cell['model']}.data.json")
    nodes = cell["nodes"]
    guess = infmix.mean_field_guess(target, 1)
    points = guess.mean + 0.5 * guess.sd * np.random.default_rng(1).standard_normal((nodes, target.dim))
    loop = plain_loop(target, points)
    before = _microseconds(loop)
    with tempfile.TemporaryDirectory() as scratch:
        mixture = infmix.sample(
            target,
            2.0,
            chains=1,
            nodes=nodes,
            fresh_nodes=nodes < 2 * target.dim,  # too few to match moments; the cost is the same
            seed=cell["seed"],
            guess=guess,
            iter_sampling=cell["draws"],
            output_dir=scratch,
        )
        text = "".join(file.read_text() for file in Path(scratch).glob("*.csv"))
    total = float(_ELAPSED.findall(text)[-1])
    floor = 0.5 * (before + _microseconds(loop))
    psi = 1e6 * total / (mixture.gradient_evaluations / nodes)  # each transition also evaluates its start
    return {"psi_us": psi, "floor_us": floor, "ratio": psi / floor}


def _microseconds(call: Callable[[], None], seconds: float = 2.0) -> float:
    """The mean over two seconds: NUTS's time is a mean too, over whatever else the machine does."""
    began, calls = time.perf_counter(), 0
    while time.perf_counter() < began + seconds:
        for _ in range(20):
            call()
        calls += 20
    return 1e6 * (time.perf_counter() - began) / calls


def main() -> None:
    """Run, and write JSON and table."""
    options = study.arguments(__doc__ or "").parse_args()
    draws = 10_000 if options.full else 1000
    cells = [
        {"model": model, "nodes": nodes, "seed": seed + 1, "draws": draws}
        for model in MODELS
        for nodes in NODES
        for seed in range(options.seeds or 1)
    ]
    rows = study.run_cells("psi_cost", cells, run, options)
    headings = ("model", "M", "gradient of psi, microseconds", "M gradients in C", "ratio")
    lines = [
        (row["model"], row["nodes"], f"{row['psi_us']:.1f}", f"{row['floor_us']:.1f}", f"{row['ratio']:.2f}")
        for row in rows
    ]
    text = f"# Cost of psi\n\nAt most {LIMIT} is the aim.\n\n" + study.markdown(headings, lines)
    study.write_report("psi_cost", text, options)


if __name__ == "__main__":
    main()
