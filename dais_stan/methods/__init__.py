"""The variational methods: what each maximises, from where, and what a fit by it reports.

A method is a frozen record of its options. ``objective`` binds it to a density and a family and gives what
the optimiser calls; ``report`` turns the optimum into the fields of the fit. Nothing else in the library
asks which method a fit is of.
"""

from .base import PAPER_SCHEDULE, PARTICLES_PER_STEP, Method, MethodObjective
from .dais import Dais, Dais0
from .iwvi import Iwvi
from .msc import Msc
from .registry import METHODS, make_method, options_of
from .vi import FlowVi, Vi

__all__ = [
    "METHODS",
    "PAPER_SCHEDULE",
    "PARTICLES_PER_STEP",
    "Dais",
    "Dais0",
    "FlowVi",
    "Iwvi",
    "Method",
    "MethodObjective",
    "Msc",
    "Vi",
    "make_method",
    "options_of",
]
