"""One NUTS run of a compiled program through CmdStanPy: start it, perhaps nearer the origin, and read it."""

from __future__ import annotations

import logging
import os
import re
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cmdstanpy
import numpy as np
from numpy.typing import NDArray

from dais_stan.errors import TargetError

_log = logging.getLogger("dais_stan")

DEFAULT_RADIUS = 2.0
_HALVINGS = 10
# CmdStanPy's arguments that have another name here, or only one value that makes sense.
_RESERVED = ("data", "save_warmup", "sig_figs", "fixed_param")
# CmdStan's columns under ArviZ's names.
_STATS = {
    "lp__": "lp",
    "accept_stat__": "acceptance_rate",
    "stepsize__": "step_size",
    "treedepth__": "tree_depth",
    "n_leapfrog__": "n_steps",
    "divergent__": "diverging",
    "energy__": "energy",
}
_REJECTION = re.compile(r"^.*(?:Exception|log\(0\)|Gradient evaluated|must be|is not).*$", re.MULTILINE)
_PROGRESS = re.compile(r"^(?:Chain \[\d+\] )?Iteration:|^Gradient evaluation|^1000 transitions|^Adjust your")


@dataclass(frozen=True)
class NutsRun:
    """What a run left.

    Attributes:
        names: of the columns, as Stan writes them ("theta.1").
        draws: (chain, draw, column), after warmup.
        stats: sampler statistics under ArviZ's names, each (chain, draw), after warmup.
        gradient_evaluations: leapfrog steps of all chains, warmup included; the few gradients of the search
            for a first step size are not. With ``thin`` above 1 it is estimated from the saved iterations.
        seconds: wall time, without compiling.
        init_radius: of the box about the origin where the chains started; None: the caller's own values.
    """

    names: tuple[str, ...]
    draws: NDArray[np.float64]
    stats: dict[str, NDArray]
    gradient_evaluations: int
    seconds: float
    init_radius: float | None


class _NoStart(Exception):
    """No finite initial value; the text is the last reason that Stan gave."""


def run_nuts(
    model: cmdstanpy.CmdStanModel,
    data_json: str,
    *,
    chains: int,
    seed: int,
    iter_warmup: int,
    iter_sampling: int,
    options: Mapping[str, Any],
) -> NutsRun:
    """Sample with NUTS.

    Where no chain can start within the radius of its box (Stan's default is 2), the radius is halved and the
    log says so, until the chains start at the origin itself.

    Args:
        data_json: the data, in CmdStan's JSON.
        options: further arguments of ``CmdStanModel.sample``.

    Raises:
        ValueError: a bad argument.
        TargetError: no finite start, or the run failed; the message is Stan's own.
    """
    for name in _RESERVED:
        if name in options:
            raise ValueError(f"{name} cannot be given here.")
    if chains < 1 or iter_sampling < 1:
        raise ValueError(f"chains and iter_sampling must be at least 1, not {chains} and {iter_sampling}.")
    options = {"show_progress": False, "inits": DEFAULT_RADIUS, **options}
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="dais-stan-") as scratch:
        data_file = Path(scratch) / "data.json"
        data_file.write_text(data_json or "{}", encoding="utf-8")
        arguments = {
            "data": str(data_file),
            "chains": chains,
            "seed": seed,
            "iter_warmup": iter_warmup,
            "iter_sampling": iter_sampling,
            "save_warmup": True,  # for the number of gradients
            "sig_figs": 17,  # a double survives
        }
        fit, radius = _start(model, arguments, options, Path(scratch))
        return _read(fit, radius, time.perf_counter() - started)


def _start(
    model: cmdstanpy.CmdStanModel, arguments: dict[str, Any], options: dict[str, Any], scratch: Path
) -> tuple[cmdstanpy.CmdStanMCMC, float | None]:
    inits = options.pop("inits")
    given = not isinstance(inits, int | float)
    radii = [inits] if given else [*(inits * 0.5**k for k in range(_HALVINGS)), 0.0]
    for number, radius in enumerate(radii):
        folder = options.get("output_dir") or scratch / str(number)
        try:
            fit = _run(model, {**arguments, **options, "inits": radius, "output_dir": folder})
        except _NoStart as failure:
            reason = str(failure)
            continue
        if number > 0:
            _log.warning(
                "%s: no finite start within %g of the origin; the chains started within %g",
                model.name,
                inits,
                radius,
            )
        return fit, None if given else radius
    where = "at the given inits" if given else f"within {inits:g} of the origin of the unconstrained space"
    raise TargetError(
        f"No finite point of {model.name} was found {where}, so no chain can start. If a parameter has a "
        f"limited range, declare it with bounds such as real<lower=0>. The last reason was: {reason}"
    )


def _run(model: cmdstanpy.CmdStanModel, arguments: dict[str, Any]) -> cmdstanpy.CmdStanMCMC:
    folder = Path(arguments["output_dir"])
    before = set(folder.glob("*stdout*.txt"))
    try:
        with cmdstanpy.disable_logging(), _thread_variable_kept():
            return model.sample(**arguments)
    except RuntimeError as error:
        consoles = sorted(set(folder.glob("*stdout*.txt")) - before)
        console = "\n".join(file.read_text(encoding="utf-8", errors="replace") for file in consoles)
        if "Initialization failed" in console or "Initialization between" in console:
            reasons = _REJECTION.findall(console)
            raise _NoStart(" ".join(reasons[-1].split()) if reasons else "log density is -inf") from error
        lines = [line.strip() for line in console.splitlines() if line.strip() and not _PROGRESS.match(line)]
        said = " ".join(lines[-4:]) if lines else str(error)
        raise TargetError(f"NUTS on {model.name} failed: {said}") from error


@contextmanager
def _thread_variable_kept() -> Iterator[None]:
    """CmdStanPy sets STAN_NUM_THREADS for the whole process and leaves it."""
    before = os.environ.get("STAN_NUM_THREADS")
    try:
        yield
    finally:
        os.environ.pop("STAN_NUM_THREADS", None)
        if before is not None:
            os.environ["STAN_NUM_THREADS"] = before


def _read(fit: cmdstanpy.CmdStanMCMC, radius: float | None, seconds: float) -> NutsRun:
    header, rows = zip(*(_read_chain(Path(path)) for path in fit.runset.csv_files), strict=True)
    names = header[0]
    table = np.stack(rows)
    n_stats = sum(name.endswith("__") for name in names)
    warmup = table.shape[1] - fit.num_draws_sampling
    steps = table[:, :, names.index("n_leapfrog__")]
    stats = {
        _STATS.get(name, name.rstrip("_")): table[:, warmup:, column]
        for column, name in enumerate(names[:n_stats])
    }
    for name in ("tree_depth", "n_steps"):
        stats[name] = stats[name].astype(np.int64)
    stats["diverging"] = stats["diverging"].astype(bool)
    return NutsRun(
        names=names[n_stats:],
        draws=table[:, warmup:, n_stats:],
        stats=stats,
        gradient_evaluations=int(steps.sum()) * fit.thin,
        seconds=seconds,
        init_radius=radius,
    )


def _read_chain(path: Path) -> tuple[tuple[str, ...], NDArray[np.float64]]:
    """Column names and the rows (warmup and sampling) of a Stan CSV file."""
    with path.open(encoding="utf-8") as file:
        lines = [line for line in file if not line.startswith("#")]
    return tuple(lines[0].strip().split(",")), np.loadtxt(lines[1:], delimiter=",", ndmin=2)
