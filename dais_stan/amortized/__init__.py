"""Amortised inference: one encoder for the local parameters of all observations of a Stan program."""

from .file import load_amortized
from .fit import AmortizedFit, fit_amortized

__all__ = ["AmortizedFit", "fit_amortized", "load_amortized"]
