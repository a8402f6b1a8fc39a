"""Amortised fits as files: netCDF that ArviZ opens, with a group that ``load_amortized`` turns back."""

from __future__ import annotations

import json
import os
from dataclasses import asdict

import xarray as xr

from .. import arviz_io
from ..fit_file import trace_arrays, trace_of
from ..optimize import Optimum
from ..recipe import open_recipe, write_recipe
from .fit import AmortizedFit
from .problem import Options, Problem


def amortized_group(fit: AmortizedFit) -> xr.Dataset:
    """Everything but the target's library."""
    optimum = fit.optimum
    record = {
        "options": asdict(fit.options),
        "target": write_recipe(fit.target),
        "optimum": {name: getattr(optimum, name) for name in ("stopped_by", "iterations", "rejected")},
    }
    arrays = {"params": (("param",), optimum.params), **trace_arrays(optimum.trace)}
    return xr.Dataset(arrays, attrs={"fit": json.dumps(record)})


def load_amortized(path: str | os.PathLike[str]) -> AmortizedFit:
    """Read a fit saved by ``AmortizedFit.save``; program and data travel in the file.

    Raises ValueError where the file holds no amortised fit.
    """
    groups = arviz_io.read(path)
    if "amortized" not in groups:
        raise ValueError(f"{path} holds no amortised fit; its groups are {sorted(groups)}")
    saved = groups["amortized"]
    try:
        record = json.loads(saved.attrs["fit"])
        options = Options.of(**record["options"])
        optimum = Optimum(params=saved["params"].to_numpy(), trace=trace_of(saved), **record["optimum"])
        recipe = record["target"]
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path}: its group amortized is not one of this version: {error}") from error
    problem = Problem.of(open_recipe(recipe), options)
    if len(optimum.params) != problem.objective.n_params:
        raise ValueError(
            f"{path}: its fit must have {problem.objective.n_params} parameters, found {len(optimum.params)}"
        )
    return AmortizedFit(problem, options, optimum)
