"""The methods by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, fields
from typing import Any

from ..families import GAUSSIANS
from .base import Method
from .dais import Dais, Dais0
from .iwvi import Iwvi
from .msc import Msc
from .vi import FlowVi, Vi

METHODS: dict[str, Callable[..., Method]] = {
    "meanfield": Vi,
    "fullrank": Vi,
    "flow": FlowVi,
    "iwvi": Iwvi,
    "dais0": Dais0,
    "dais": Dais,
    "msc": Msc,
}


def make_method(name: str, preset: str | None = None, **options: Any) -> Method:
    """The method of this name with the given options, others at their defaults or the preset's values.

    ``preset`` None has defaults that need no tuning; "paper" has the settings of Zenn & Bamler (2024).
    Raises ValueError for an unknown name, preset or option, and for a value out of range.
    """
    if name not in METHODS:
        raise ValueError(f"method must be one of auto, {', '.join(METHODS)}, found {name!r}")
    maker: Any = METHODS[name]
    if name in GAUSSIANS and options.setdefault("family", name) != name:
        raise ValueError(
            f"family of method {name!r} must be {name!r}, found {options['family']!r}: "
            "for a flow there is the method 'flow'"
        )
    known = {entry.name for entry in fields(maker)}
    if unknown := sorted(set(options) - known):
        raise ValueError(f"method {name!r} has no option {', '.join(unknown)}; it has {_listed(known)}")
    if preset is None:
        return maker(**options)
    if preset != "paper" or not hasattr(maker, "PAPER"):
        raise ValueError(
            f"preset must be None or, for iwvi, dais0, dais and msc, 'paper'; found {preset!r} for {name!r}"
        )
    return maker(**{**maker.PAPER, "paper": True, **options})


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names - {"paper"}))


def options_of(method: Method) -> dict[str, Any]:
    """The options as plain values, for the record of a fit."""
    return {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(method).items()}  # type: ignore[call-overload]
