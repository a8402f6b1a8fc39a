"""The scalar equation to which the inverses of planar and Sylvester flows come down."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_STEPS = 200
_ROUNDING = 4.0 * np.finfo(float).eps


def solve_monotone(target: NDArray, height: NDArray, slope: NDArray, shift: NDArray) -> NDArray:
    """v with v + height tanh(slope v + shift) = target, elementwise, for height * slope > -1.

    The left side rises in v, and v lies within |height| of the target: Newton steps, with a bisection in
    place of one that leaves the bracket and of every fourth, so that the bracket closes in any case.
    """
    reach = np.abs(height)
    low, high = target - reach, target + reach
    v = target.astype(float)
    for step in range(_STEPS):
        t = np.tanh(slope * v + shift)
        excess = v + height * t - target
        low = np.where(excess < 0.0, v, low)
        high = np.where(excess > 0.0, v, high)
        newton = v - excess / (1.0 + height * slope * (1.0 - t * t))
        inside = (newton >= low) & (newton <= high)
        if step % 4 == 3:
            inside &= np.abs(newton - v) <= _ROUNDING * (np.abs(v) + reach)
        new = np.where(inside, newton, 0.5 * (low + high))
        settled = np.abs(new - v) <= _ROUNDING * (np.abs(v) + reach)
        v = new
        if settled.all():
            break
    return v
