"""The words with which every result says that something is wrong."""

from __future__ import annotations

from collections.abc import Sequence

NOT_TRUSTED = "Not to be trusted"


def not_trusted(warnings: Sequence[str]) -> str:
    """The verdict on a result with these warnings."""
    return f"{NOT_TRUSTED} as it stands: " + "; ".join(warnings) + "."
