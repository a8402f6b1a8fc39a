"""Write the data files of this folder: `python generate.py [FOLDER]`. Rerunning changes nothing.

Random data come from a fixed seed and are rounded, so that the files are small and the same everywhere.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Data = dict[str, Any]


def eight_schools() -> Data:
    """Effects of coaching on test scores, with standard errors: Rubin (1981), table 1."""
    return {"J": 8, "y": [28, 8, -3, 7, -1, 1, 18, 12], "sigma": [15, 10, 16, 11, 9, 11, 10, 18]}


def logistic_regression(rows: int = 208, columns: int = 60, seed: int = 1) -> Data:
    """Standard normal predictors and coefficients (scaled so that the classes overlap); sonar's size."""
    rng = np.random.default_rng(seed)
    predictors = rng.standard_normal((rows, columns)).round(2)
    coefficients = rng.standard_normal(columns) * 2 / np.sqrt(columns)
    chance = 1 / (1 + np.exp(-(0.5 + predictors @ coefficients)))
    outcome = (rng.random(rows) < chance).astype(int)
    return {"N": rows, "K": columns, "X": predictors.tolist(), "y": outcome.tolist()}


def gaussian(dim: int = 5, seed: int = 1) -> Data:
    """A mean and a correlated covariance whose standard deviations span two orders of magnitude."""
    rng = np.random.default_rng(seed)
    factor = rng.standard_normal((dim, dim)) + np.eye(dim)
    covariance = factor @ factor.T
    scale = np.geomspace(0.1, 10, dim) / np.sqrt(np.diag(covariance))
    covariance = scale[:, None] * covariance * scale
    mean = rng.normal(0, 3, dim).round(3)
    return {"D": dim, "m": mean.tolist(), "S": covariance.round(8).tolist()}


def funnel(dim: int = 9) -> Data:
    """Neal (2003) has nine scales below one log variance."""
    return {"D": dim}


def beta_binomial() -> Data:
    """Two successes in ten with a flat prior: log evidence -log 11 = -2.397895."""
    return {"n": 10, "y": 2, "a": 1, "b": 1}


def conjugate_normal() -> Data:
    """Five measurements of one mean; log evidence -8.765277, from the multivariate normal."""
    return {"N": 5, "y": [1.2, 0.3, 2.1, 1.7, 0.9], "m0": -1, "s0": 2, "sigma": 1.5}


GENERATORS: dict[str, Callable[[], Data]] = {
    "eight_schools_centered": eight_schools,
    "eight_schools_noncentered": eight_schools,
    "logistic_regression": logistic_regression,
    "gaussian": gaussian,
    "funnel": funnel,
    "beta_binomial": beta_binomial,
    "conjugate_normal": conjugate_normal,
}


def write(folder: Path) -> None:
    for name, generator in GENERATORS.items():
        (folder / f"{name}.data.json").write_text(json.dumps(generator()) + "\n")


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
