"""Infinite stochastic mixtures: approximations between sampling and variational inference."""

from .components import Components
from .functions import Coordinates, Sinusoids, Squares
from .information import expected_kl, fisher_information, kl_error, mutual_information
from .mixture import Expectation, Mixture
from .mixture_file import load
from .path import Choice, LambdaPath, choose_lambda, lambda_path
from .psi import Guess
from .sampling import mean_field_guess, sample

__all__ = [
    "Choice",
    "Components",
    "Coordinates",
    "Expectation",
    "Guess",
    "LambdaPath",
    "Mixture",
    "Sinusoids",
    "Squares",
    "choose_lambda",
    "expected_kl",
    "fisher_information",
    "kl_error",
    "lambda_path",
    "load",
    "mean_field_guess",
    "mutual_information",
    "sample",
]
