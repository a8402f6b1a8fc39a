"""Frozen standard-normal nodes, over which psi takes the expectation of a target's log density."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.stats import norm, qmc

#: Nodes of a mixture are at least as many, however small the dimension.
LEAST = 64


def default_count(dim: int) -> int:
    """M for ``dim`` dimensions: enough to match second moments, which takes 2 D antithetic nodes."""
    return max(LEAST, 2 * dim)


def moment_matched_nodes(count: int, dim: int, seed: int) -> NDArray:
    """Nodes (M, D) with mean 0 and second moment I exactly: scrambled Sobol points and their mirror images.

    The mean of any quadratic over them is its expectation under N(0, I), so that psi of a Gaussian target
    has no error at all. Raises ValueError where ``count`` is odd or below 2 D, which cannot match moments.
    """
    if count % 2 or count < 2 * dim:
        raise ValueError(
            f"nodes must be an even number of at least 2 D = {2 * dim}, to match the moments of a normal in "
            f"{dim} dimensions; found {count}"
        )
    half = count // 2
    sequence = qmc.Sobol(dim, seed=np.random.default_rng(seed))
    uniform = sequence.random_base2(int(np.ceil(np.log2(half))))[:half]
    points = norm.ppf(np.clip(uniform, 2.0**-40, 1.0 - 2.0**-40))
    variance, axes = eigh(points.T @ points / half)
    # The symmetric root turns the points least.
    points = points @ (axes / np.sqrt(variance)) @ axes.T
    return np.concatenate((points, -points))


def plain_nodes(count: int, dim: int, seed: int) -> NDArray:
    """Independent standard normal nodes (M, D), as the authors' program draws them."""
    return np.random.default_rng(seed).standard_normal((count, dim))
