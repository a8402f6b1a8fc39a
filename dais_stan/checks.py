"""Checks of a user's arguments that many places share."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np


def whole_number(name: str, value: Any, least: int) -> int:
    """``value``, of any type of integer, as a plain int.

    Raises ValueError for anything else, or for a number below ``least``.
    """
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} must be a whole number, found {value!r}") from None
    if number < least:
        raise ValueError(f"{name} must be at least {least}, found {number}")
    return number


def chosen_seed(seed: Any) -> int:
    """The user's seed, a whole number of at least 0; None: one from the system."""
    if seed is None:
        return int(np.random.SeedSequence().entropy % 2**31)  # type: ignore[operator]
    return whole_number("seed", seed, 0)
