"""Variational and annealed approximations of any Stan posterior, with the evidence and its error.

>>> import dais_stan as ds
>>> target = ds.Target.from_stan("model.stan", data="data.json")
>>> fit = ds.fit(target, method="fullrank", seed=1)
>>> print(fit.summary(), fit.log_evidence, fit.log_evidence_se, fit.verdict())
"""

from .approximation import Fit, load
from .comparison import Comparison, compare
from .errors import DaisStanError, EngineError, StanCompileError, TargetError
from .fitting import fit
from .optimize import Schedule
from .target import Target

__version__ = "0.1.0"

__all__ = [
    "Comparison",
    "DaisStanError",
    "EngineError",
    "Fit",
    "Schedule",
    "StanCompileError",
    "Target",
    "TargetError",
    "compare",
    "fit",
    "load",
]
