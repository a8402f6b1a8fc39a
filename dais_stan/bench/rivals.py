"""CmdStan's own approximations, through CmdStanPy at its defaults: ADVI, Pathfinder, Laplace."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cmdstanpy
import numpy as np

from ..engines.cmdstan import cmdstan_model
from ..errors import TargetError
from ..psis import KHAT_LIMIT, pareto_smooth
from ..target import Target
from .outcome import Budget, Outcome

DRAWS = 4000

_ADAPTATION = re.compile(r"Iteration:\s*(\d+) / \d+ \[\s*\d+%\]\s*\(Adaptation\)")
_STEP = re.compile(r"^\s+(\d+)\s+-?\d", re.MULTILINE)
_PATH_EVALUATIONS = re.compile(r"evaluations: \((\d+)\)")
_PARETO = re.compile(r"Pareto k value \(([^)]+)\)")
#: ADVI's own estimate of the ELBO: draws each time, and iterations from one time to the next.
ADVI_ELBO_DRAWS = ADVI_ELBO_EVERY = 100


def run_rival(name: str, target: Target, seed: int, budget: Budget) -> Outcome:
    """One run of "advi" (mean-field), "advi-fullrank", "pathfinder" or "laplace".

    Raises TargetError with CmdStan's words where it fails; a run longer than the budget's seconds is killed.
    """
    assert target.program is not None
    model = cmdstan_model(target.program)
    with tempfile.TemporaryDirectory(prefix="dais-stan-") as scratch:
        data = Path(scratch) / "data.json"
        data.write_text(target.data_json or "{}", encoding="utf-8")
        common = {
            "data": str(data),
            "seed": seed,
            "output_dir": scratch,
            "sig_figs": 17,  # a simplex must sum to one when read back
            "timeout": budget.seconds,
        }
        began = time.perf_counter()
        try:
            with cmdstanpy.disable_logging():
                run = _RUNNERS[name](model, common)
                table, columns = _draws(run)
        except (RuntimeError, ValueError, TimeoutError) as error:
            budget.check(None, time.perf_counter() - began)
            raise TargetError(f"{name}: {' '.join(str(error).split())[:300]}") from error
        seconds = time.perf_counter() - began
        console = "\n".join(path.read_text(errors="replace") for path in Path(scratch).glob("*stdout*.txt"))
    scalars = _scalars(target, table, columns)
    return _JUDGES[name.split("-")[0]](scalars, table, columns, console, seconds)


def _advi(algorithm: str) -> Callable[[Any, dict[str, Any]], Any]:
    def run(model: Any, common: dict[str, Any]) -> Any:
        return model.variational(**common, algorithm=algorithm, draws=DRAWS, require_converged=False)

    return run


def _pathfinder(model: Any, common: dict[str, Any]) -> Any:
    return model.pathfinder(**common, draws=DRAWS)


def _laplace(model: Any, common: dict[str, Any]) -> Any:
    return model.laplace_sample(**common, draws=DRAWS, opt_args={"sig_figs": 17})


_RUNNERS: dict[str, Callable[[Any, dict[str, Any]], Any]] = {
    "advi": _advi("meanfield"),
    "advi-fullrank": _advi("fullrank"),
    "pathfinder": _pathfinder,
    "laplace": _laplace,
}
RIVALS = tuple(_RUNNERS)


def _draws(run: Any) -> tuple[np.ndarray, list[str]]:
    table = run.variational_sample if hasattr(run, "variational_sample") else run.draws()
    return np.asarray(table), list(run.column_names)


def _scalars(target: Target, table: np.ndarray, columns: list[str]) -> dict[str, np.ndarray]:
    """Each of the program's scalars by Stan's name, theta[1,2], from CmdStan's theta.1.2 or theta[1,2]."""
    out = {}
    for column, values in zip(columns, table.T, strict=True):
        if not column.endswith("__"):
            first, *index = column.split(".")
            out[f"{first}[{','.join(index)}]" if index else first] = values
    return out


def _khat(table: np.ndarray, columns: list[str], log_p: str, log_q: str) -> float | None:
    """k-hat of the weights of draws of q itself."""
    if log_p not in columns or log_q not in columns:
        return None
    return pareto_smooth(table[:, columns.index(log_p)] - table[:, columns.index(log_q)]).khat


def _judge_advi(
    scalars: dict[str, np.ndarray], table: np.ndarray, columns: list[str], console: str, seconds: float
) -> Outcome:
    adaptation = sum(map(int, _ADAPTATION.findall(console)[-1:]))
    steps = max(map(int, _STEP.findall(console)), default=0)
    khat = _khat(table, columns, "log_p__", "log_g__")
    gradients = adaptation + steps
    return Outcome(
        scalars,
        gradients=gradients,
        evaluations=gradients + ADVI_ELBO_DRAWS * (steps // ADVI_ELBO_EVERY),
        seconds=seconds,
        khat=khat,
        warned="ELBO CONVERGED" not in console,
    )


def _judge_pathfinder(
    scalars: dict[str, np.ndarray], table: np.ndarray, columns: list[str], console: str, seconds: float
) -> Outcome:
    found = _PARETO.findall(console)
    khat = float(found[-1]) if found else None
    return Outcome(
        scalars,
        gradients=None,  # it counts them together with plain evaluations
        evaluations=sum(map(int, _PATH_EVALUATIONS.findall(console))) or None,
        seconds=seconds,
        khat=khat,
        warned=khat is not None and khat > KHAT_LIMIT,
    )


def _judge_laplace(
    scalars: dict[str, np.ndarray], table: np.ndarray, columns: list[str], console: str, seconds: float
) -> Outcome:
    return Outcome(
        scalars,
        gradients=None,
        evaluations=None,
        seconds=seconds,
        khat=_khat(table, columns, "log_p__", "log_q__"),
    )


_JUDGES = {"advi": _judge_advi, "pathfinder": _judge_pathfinder, "laplace": _judge_laplace}
