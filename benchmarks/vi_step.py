"""What one step of mean-field VI with 16 draws costs on eight schools, here and in NumPyro.

Both in one process and one run, alternating. Ours is measured through ``dais_stan.fit``, as the difference
between a long and a short run divided by the iterations between them; NumPyro's is ``SVI.update`` with
AutoNormal and a vectorised 16-particle ELBO in a compiled scan, in the same way, compiling left out.

    pip install -e '.[bench]'
    python benchmarks/vi_step.py [--full] [--out results.json]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import numpyro
from numpyro.infer import SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal
from numpyro_models import eight_schools

import dais_stan as ds
from dais_stan import resources

DRAWS = 16
RESULTS = Path(__file__).with_name("results") / "vi_step.json"


def stan_steps() -> Callable[[int], None]:
    """A run of mean-field VI of so many iterations on the Stan program."""
    folder = resources.stan_models()
    target = ds.Target.from_stan(
        folder / "eight_schools_noncentered.stan",
        data=folder / "eight_schools_noncentered.data.json",
        threads=1,
    )

    def run(iterations: int) -> None:
        # A tolerance that no climb can miss: the run goes to its last iteration.
        schedule = ds.Schedule(learning_rates=(0.01,), tolerance=-1e12, max_iterations=iterations)
        ds.fit(
            target,
            "meanfield",
            seed=1,
            start="zero",
            draws_per_step=DRAWS,
            schedule=schedule,
            importance_draws=30,
        )

    return run


def numpyro_steps() -> Callable[[int], None]:
    """The same model and family in NumPyro, in double precision."""
    model = eight_schools()
    loss = Trace_ELBO(num_particles=DRAWS)
    svi = SVI(model, AutoNormal(model), numpyro.optim.Adam(0.01), loss)

    @partial(jax.jit, static_argnums=1)
    def scan(state: Any, iterations: int) -> jax.Array:
        return jax.lax.scan(lambda state, _: svi.update(state), state, None, length=iterations)[1]

    state = svi.init(jax.random.PRNGKey(0))

    def run(iterations: int) -> None:
        scan(state, iterations).block_until_ready()

    return run


def seconds(run: Callable[[int], None], iterations: int) -> float:
    began = time.perf_counter()
    run(iterations)
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the default")
    parser.add_argument("--full", action="store_true", help="more rounds and longer runs")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    numpyro.enable_x64()
    short, long, rounds = (1000, 11_000, 9) if options.full else (500, 4500, 5)
    runs = {"dais-stan": stan_steps(), "numpyro": numpyro_steps()}
    for run in runs.values():  # compile
        run(short), run(long)
    steps: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            steps[name].append((seconds(run, long) - seconds(run, short)) / (long - short))
    best = {name: min(times) for name, times in steps.items()}
    ratios = [ours / theirs for ours, theirs in zip(steps["dais-stan"], steps["numpyro"], strict=True)]
    result = {
        "machine": f"{platform.machine()}, {os.cpu_count()} processors, Python {platform.python_version()}",
        "draws_per_step": DRAWS,
        "microseconds_per_step": {name: 1e6 * value for name, value in best.items()},
        "ratio_of_quickest": best["dais-stan"] / best["numpyro"],
        "ratio_median": float(np.median(ratios)),
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
