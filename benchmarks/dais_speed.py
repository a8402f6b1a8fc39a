"""What one iteration of DAIS costs (N = K = 16), against the floor of its gradients and against NumPyro.

One process and one run, the three alternating, float64. The floor is a plain C loop over the model's own
gradient, twice for each particle and transition. Ours is measured through ``dais_stan.fit``, as the
difference between a long and a short run; NumPyro's is a compiled loop over ``SVI.update`` with AutoDAIS
and a vectorised 16-particle bound, in the same way, compiling left out.

    pip install -e '.[bench]'
    python benchmarks/dais_speed.py [--full] [--out results.json]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import numpyro
from gradient_floor import plain_loop
from numpyro.infer import SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoDAIS
from numpyro_models import eight_schools, logistic
from uci import training_data

import dais_stan as ds
from dais_stan import resources

PARTICLES = TRANSITIONS = 16
RESULTS = Path(__file__).with_name("results") / "dais_speed.json"
Run = Callable[[int], None]


def problems() -> dict[str, tuple[str, Any, Callable[[], None]]]:
    """Name -> Stan program, its data, the same model in NumPyro."""
    sonar, schools = training_data("sonar"), "eight_schools_noncentered"
    return {
        "sonar": ("logistic_regression", sonar, logistic(sonar["X"], sonar["y"])),
        "eight schools": (schools, resources.stan_models() / f"{schools}.data.json", eight_schools()),
    }


def stan_run(program: str, data: Any, threads: int) -> tuple[Run, ds.Target]:
    """A run of DAIS_0 of so many iterations on the Stan program."""
    path = resources.stan_models() / f"{program}.stan"
    target = ds.Target.from_stan(path, data=data, threads=threads)

    def run(iterations: int) -> None:
        schedule = ds.Schedule(learning_rates=(0.01,), max_iterations=iterations, fixed=True)
        options: dict[str, Any] = {"particles": PARTICLES, "transitions": TRANSITIONS, "warm_start": False}
        ds.fit(target, "dais0", seed=1, start="zero", schedule=schedule, importance_draws=30, **options)

    return run, target


def numpyro_run(model: Callable[[], None]) -> Run:
    """The same number of particles and transitions in NumPyro."""
    loss = Trace_ELBO(num_particles=PARTICLES)
    svi = SVI(model, AutoDAIS(model, K=TRANSITIONS), numpyro.optim.Adam(0.001), loss)
    state = svi.init(jax.random.PRNGKey(0))
    # Compiled once for any number of iterations, as SVI.run is not.
    loop = jax.jit(lambda start, n: jax.lax.fori_loop(0, n, lambda _, s: svi.update(s)[0], start))

    def run(iterations: int) -> None:
        jax.block_until_ready(loop(state, iterations))

    return run


def floor(target: ds.Target) -> float:
    """Milliseconds of the gradients of one iteration in a C loop."""
    points = 2 * PARTICLES * TRANSITIONS
    loop = plain_loop(target, np.random.default_rng(1).normal(0, 0.1, (points, target.dim)))
    began = time.perf_counter()
    for _ in range(20):
        loop()
    return 1e3 * (time.perf_counter() - began) / 20


def seconds(run: Run, iterations: int) -> float:
    began = time.perf_counter()
    run(iterations)
    return time.perf_counter() - began


def measure(name: str, full: bool) -> dict[str, Any]:
    """One row: milliseconds an iteration, the quickest of alternating rounds."""
    program, data, model = problems()[name]
    (one, target), (two, _) = (stan_run(program, data, threads) for threads in (1, 2))
    runs = {"one_thread": one, "two_threads": two, "numpyro": numpyro_run(model)}
    short, long, rounds = (200, 2200, 7) if full else (50, 300, 4)
    for run in runs.values():  # compile
        run(short)
    times: dict[str, list[float]] = {key: [] for key in ("floor", *runs)}
    for _ in range(rounds):
        times["floor"].append(floor(target))
        for key, run in runs.items():
            times[key].append(1e3 * (seconds(run, long) - seconds(run, short)) / (long - short))
    best = {key: min(values) for key, values in times.items()}
    return {
        "model": name,
        **{f"{key}_ms": value for key, value in best.items()},
        "one_thread_to_floor": best["one_thread"] / best["floor"],
        "two_threads_to_floor": best["two_threads"] / best["floor"],
        "numpyro_to_one_thread": best["numpyro"] / best["one_thread"],
        "numpyro_to_two_threads": best["numpyro"] / best["two_threads"],
    }


def main() -> None:
    """Measure, print and write JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the default")
    parser.add_argument("--full", action="store_true", help="more rounds and longer runs")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    numpyro.enable_x64()
    rows = [measure(name, options.full) for name in problems()]
    machine = {"platform": platform.platform(), "processor": platform.machine(), "cpus": os.cpu_count()}
    text = json.dumps({"machine": machine, "rows": rows}, indent=2)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
