"""Where the shipped Stan programs and reference posteriors are: in a clone or in an installed wheel."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def _shipped(folder: str) -> Path:
    """The wheel keeps the folder below the package; a clone keeps it beside the package."""
    in_wheel = _PACKAGE / "_shipped" / folder
    return in_wheel if in_wheel.is_dir() else _PACKAGE.parent / folder


def stan_models() -> Path:
    """Folder of the Stan programs that come with dais-stan."""
    return _shipped("stan_models")


def posteriordb_refs() -> Path:
    """Folder of the compact reference posteriors that come with dais-stan."""
    return _shipped("posteriordb_refs")
