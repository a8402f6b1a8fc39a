"""Infinite stochastic mixtures: approximations between sampling and variational inference."""

from .components import Components
from .mixture import Expectation, Mixture
from .mixture_file import load
from .psi import Guess
from .sampling import mean_field_guess, sample

__all__ = ["Components", "Expectation", "Guess", "Mixture", "load", "mean_field_guess", "sample"]
