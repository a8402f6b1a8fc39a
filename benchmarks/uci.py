"""The data of the paper's logistic regressions, split as its program splits them.

The files are read from DAIS_STAN_SHARED/uci (by default ``shared/uci`` beside the repository): CSV with a
header, features first, the label last.
"""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: The label of each data set that counts as 1, and whether features are scaled to [0, 1] first.
DATA_SETS = {"sonar": ("R", False), "ionosphere": ("g", False), "heart_attack": ("1", True)}
TRAINING_SHARE = 0.8


def folder() -> Path:
    """Where the files are."""
    shared = Path(os.environ.get("DAIS_STAN_SHARED", Path(__file__).resolve().parents[2] / "shared"))
    return shared / "uci"


def torch_permutation(n: int, seed: int = 0) -> NDArray:
    """The order in which PyTorch's random_split with this seed takes rows: Fisher-Yates on 32-bit outputs."""
    bits = np.random.MT19937()
    bits._legacy_seeding(seed)  # type: ignore[attr-defined]
    order = np.arange(n)
    for i, draw in enumerate(bits.random_raw(n - 1)):
        j = i + int(draw) % (n - i)
        order[[i, j]] = order[[j, i]]
    return order


def training_data(name: str) -> dict[str, Any]:
    """Data for ``logistic_regression.stan`` or ``logistic_paper_code.stan``: the training rows.

    Raises FileNotFoundError where the file is not there, ValueError for an unknown data set.
    """
    if name not in DATA_SETS:
        raise ValueError(f"data set must be one of {', '.join(DATA_SETS)}, found {name!r}")
    positive, scaled = DATA_SETS[name]
    with (folder() / f"{name}.csv").open(newline="") as file:
        _, *rows = csv.reader(file)
    features = np.array([row[:-1] for row in rows], dtype=float)
    label = np.array([int(row[-1] == positive) for row in rows])
    if scaled:
        low = features.min(axis=0)
        features = (features - low) / (features.max(axis=0) - low)
    kept = torch_permutation(len(rows))[: int(TRAINING_SHARE * len(rows))]
    return {"N": len(kept), "K": features.shape[1], "X": features[kept], "y": label[kept]}
