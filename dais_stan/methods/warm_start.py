"""Where the annealed methods start: q0 from VI, bridges and step sizes from the curvature around it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, eigsh

from ..objectives.annealing import AnnealingParameters
from ..objectives.dais import SmoothDensity
from ..whitening import WhitenedTarget
from .vi import Vi, optimum

#: The curvature is a mean over this many draws of q.
CURVATURE_DRAWS = 8
#: Above this dimension only the largest curvature is found: the cost of all would show.
MAX_DIM = 500
#: A direction of q that is flatter than this, or curved the wrong way, counts as so flat.
LEAST_CURVATURE = 1e-3
#: How far from VI's standard deviations (0) to the posterior's own (1) q0 may start, in order of preference.
WIDENINGS = tuple(0.1 * tenths for tenths in range(10, -1, -1))


def curvature(density: SmoothDensity, mean: NDArray, factor: NDArray, rng: np.random.Generator) -> NDArray:
    """Minus the mean Hessian of the log density over q, (D, D), in coordinates in which q is N(0, I).

    ``mean`` (D,) and ``factor``, (D,) or (D, D), are q's.
    """
    dim = len(mean)
    directions = np.diag(factor) if factor.ndim == 1 else np.ascontiguousarray(factor.T)
    half = rng.standard_normal((CURVATURE_DRAWS // 2, dim))
    total = np.zeros((dim, dim))
    for x in (*half, *-half):
        z = mean + x @ directions
        total -= density.hvp(np.tile(z, (dim, 1)), directions) @ directions.T
    return 0.5 * (total + total.T) / CURVATURE_DRAWS


def largest_curvature(
    density: SmoothDensity, mean: NDArray, factor: NDArray, rng: np.random.Generator
) -> float:
    """The largest eigenvalue of minus the Hessian at q's mean in the same coordinates, to a tenth."""

    def product(x: NDArray) -> NDArray:
        along = factor * x if factor.ndim == 1 else factor @ x
        curved = -density.hvp(mean[None], along[None])[0]
        return factor * curved if factor.ndim == 1 else curved @ factor

    dim = len(mean)
    operator = LinearOperator((dim, dim), matvec=product, dtype=float)
    start = rng.standard_normal(dim)
    value = eigsh(operator, k=1, which="LA", v0=start, tol=0.1, return_eigenvectors=False)
    return float(value[0])


def annealed_start(
    parameters: AnnealingParameters,
    density: WhitenedTarget,
    bound: Callable[[NDArray], float],
    rng: np.random.Generator,
    start: dict[str, Any],
) -> NDArray:
    """Parameters to start from: VI's q, as far widened as annealing from there has a better bound than VI.

    Mean-field VI has the standard deviation of each coordinate given the others, which is too small; the
    curvature around it gives the marginal ones. The annealed bound is nearly flat between the two (a few
    transitions adapt to either), so that q0 ends close to where it starts, and the marginal ones are what
    users want of it. ``start`` goes to ``AnnealingParameters.initial``.
    """
    family = parameters.family
    vi = optimum(Vi(family.name), density, family, rng)
    if family.dim > MAX_DIM:
        stiffness = largest_curvature(density, *family.moments(vi.params), rng)
        return parameters.initial(vi.params, stiffness=max(stiffness, 1.0), **start)
    value, vector = np.linalg.eigh(curvature(density, *family.moments(vi.params), rng))
    value = np.maximum(value, LEAST_CURVATURE)
    precision = (vector * value) @ vector.T
    widest = np.sqrt(np.diag(precision) * (vector**2 / value).sum(axis=1))
    for widening in WIDENINGS if family.name == "meanfield" else (0.0,):
        wider = widest**widening
        q0 = vi.params.copy()
        q0[family.dim : 2 * family.dim] += np.log(wider)
        stiffness = float(np.linalg.eigvalsh(precision * np.outer(wider, wider))[-1])
        guess = parameters.initial(q0, stiffness=stiffness, **start)
        if bound(guess) >= vi.trace.value[-1]:
            break
    return guess
