"""Checks of a user's arguments that many places share."""

from __future__ import annotations

import operator
from typing import Any


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
