"""Variational and annealed approximations of any Stan posterior, with the evidence and its error.

>>> import dais_stan as ds
>>> target = ds.Target.from_stan("model.stan", data="data.json")
>>> fit = ds.fit(target, method="fullrank", seed=1)
>>> print(fit.summary(), fit.log_evidence, fit.log_evidence_se, fit.verdict())
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .approximation import Fit
    from .comparison import Comparison, compare
    from .errors import DaisStanError, EngineError, StanCompileError, TargetError
    from .fit_file import load
    from .fitting import fit
    from .nuts import NutsFit, sample
    from .optimize import Schedule
    from .target import Target

__version__ = "0.1.0"

__all__ = [
    "Comparison",
    "DaisStanError",
    "EngineError",
    "Fit",
    "NutsFit",
    "Schedule",
    "StanCompileError",
    "Target",
    "TargetError",
    "compare",
    "fit",
    "load",
    "sample",
]

_HOME = {
    "Comparison": "comparison",
    "DaisStanError": "errors",
    "EngineError": "errors",
    "Fit": "approximation",
    "NutsFit": "nuts",
    "Schedule": "optimize",
    "StanCompileError": "errors",
    "Target": "target",
    "TargetError": "errors",
    "compare": "comparison",
    "fit": "fitting",
    "load": "fit_file",
    "sample": "nuts",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use (PEP 562): ArviZ and SciPy take seconds, and --help needs neither."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
