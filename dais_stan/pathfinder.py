"""Draws of CmdStan's multi-path Pathfinder (Zhang et al. 2022) in the unconstrained space."""

from __future__ import annotations

import tempfile
from pathlib import Path

import cmdstanpy
import numpy as np
from numpy.typing import NDArray

from .engines.cmdstan import cmdstan_model
from .errors import TargetError
from .target import Target


def pathfinder_draws(target: Target, seed: int, draws: int = 1000) -> NDArray[np.float64]:
    """Importance-resampled draws, shape (draws, D).

    Raises TargetError where Pathfinder fails, with its own message; ValueError for a target that is no Stan
    program.
    """
    if target.program is None:
        raise ValueError(f"target must be a Stan program for Pathfinder, but {target.name} is not")
    model = cmdstan_model(target.program)
    with tempfile.TemporaryDirectory(prefix="dais-stan-") as scratch:
        data = Path(scratch) / "data.json"
        data.write_text(target.data_json or "{}", encoding="utf-8")
        try:
            with cmdstanpy.disable_logging():  # it announces each step on stderr
                run = model.pathfinder(
                    str(data), seed=seed, draws=draws, output_dir=scratch, sig_figs=17, show_console=False
                )
                flat = run.draws()
        except RuntimeError as error:
            message = " ".join(str(error).split())
            raise TargetError(f"Pathfinder failed on {target.name}: {message}") from error
        columns = [i for i, name in enumerate(run.column_names) if not name.endswith("__")]
    flat = flat[:, columns]
    parameters = {n: v for n, v in target.variables.items() if v.block == "parameters"}
    return np.array([target.unconstrain({n: row[v.columns] for n, v in parameters.items()}) for row in flat])
