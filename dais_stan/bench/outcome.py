"""What a run of any method leaves for the benchmark, and the budget that it must keep to."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from numpy.typing import NDArray


class OverBudget(Exception):
    """A run went over its budget; the text says how far it came."""


@dataclass(frozen=True)
class Budget:
    """At most so many gradients, or so many seconds of running; None: no limit."""

    gradients: int | None = None
    seconds: float | None = None

    @classmethod
    def parse(cls, text: str | None) -> Budget:
        """ "20000" is gradients and "60s" seconds. Raises ValueError for anything else."""
        if text is None:
            return cls()
        seconds = text.endswith("s")
        try:
            value = float(text[:-1]) if seconds else int(text)
        except ValueError:
            value = 0
        if not 0 < value < math.inf:
            raise ValueError(
                f"budget must be gradients, such as 20000, or seconds, such as 60s; found {text!r}"
            )
        return cls(seconds=value) if seconds else cls(gradients=int(value))

    def check(self, gradients: int | None, seconds: float) -> None:
        """Raises OverBudget."""
        if self.gradients is not None and gradients is not None and gradients > self.gradients:
            raise OverBudget(f"over the budget of {self.gradients} gradients: {gradients} used")
        if self.seconds is not None and seconds > self.seconds:
            raise OverBudget(f"over the budget of {self.seconds:g} s")


@dataclass(frozen=True)
class Outcome:
    """Draws of each scalar by Stan's name, (n,), and what they cost.

    ``evaluations`` are those of the log density, with its gradient or without; None where a method does not
    say. ``warned`` is whether the method itself found fault with its result, None where it never does.
    """

    draws: dict[str, NDArray] = field(repr=False)
    gradients: int | None
    evaluations: int | None
    seconds: float
    khat: float | None = None
    log_evidence: float | None = None
    log_evidence_se: float | None = None
    warned: bool | None = None
    said: str = ""
