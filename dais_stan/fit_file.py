"""Fits as files: netCDF that ArviZ opens, with a group of its own that ``load`` turns back into the fit."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from . import arviz_io
from .adaptive import MixtureFit
from .annealed import AnnealedFit
from .approximation import Fit
from .families import FAMILIES
from .importance import importance_sample
from .objectives.dais import Annealing
from .optimize import Trace
from .recipe import open_recipe, write_recipe
from .student_mixture import StudentMixture
from .target import EvaluationCounts, Target
from .whitening import Whitening


def variational_group(fit: Fit) -> xr.Dataset:
    """Everything but the target's library: enough to load the fit and to draw from it again."""
    sample = fit.importance
    arrays = {
        "params": (("param",), fit.params),
        "centre": (("unconstrained",), fit.whitening.centre),
        "scale": (
            ("unconstrained",) if fit.whitening.scale.ndim == 1 else ("unconstrained", "whitened"),
            fit.whitening.scale,
        ),
        "importance_z": (("importance_draw", "unconstrained"), sample.z),
        "importance_log_p": (("importance_draw",), sample.log_p),
        "importance_log_q": (("importance_draw",), sample.log_q),
        "importance_log_proposal": (("importance_draw",), sample.log_proposal),
        **_annealing_arrays(fit),
        **_mixture_arrays(fit),
        **trace_arrays(fit.trace),
    }
    record = {
        "method": fit.method,
        "family": fit.family.name,
        "family_options": fit.family.options,
        "stopped_by": fit.stopped_by,
        "iterations": fit.iterations,
        "seed": fit.seed,
        "settings": fit.settings,
        "start_note": fit.start_note,
        "counts": vars(fit.counts),
        "seconds": fit.seconds,
        "warnings": fit.warnings,
        "choice": fit.choice,
        "n_q": sample.n_q,
        "target": write_recipe(fit.target),
    }
    return xr.Dataset(
        arrays, coords={"unconstrained": list(fit.target.names)}, attrs={"fit": json.dumps(record)}
    )


def load(path: str | os.PathLike[str], target: Target | None = None) -> Fit:
    """Read a fit saved by ``Fit.save``.

    The program and data travel in the file and are opened again (a model compiled before is not compiled
    again); ``target`` replaces them, and is needed for a target made of functions. Raises ValueError where
    the file holds no fit.
    """
    groups = arviz_io.read(path)
    if "variational" not in groups:
        raise ValueError(f"{path} holds no variational fit; its groups are {sorted(groups)}")
    saved = groups["variational"]
    record = json.loads(saved.attrs["fit"])
    target = target or open_recipe(record["target"])
    values = {str(name): saved[name].to_numpy() for name in saved.data_vars}
    fit_type, extra = _kind(values)
    return fit_type(
        target=target,
        method=record["method"],
        family=FAMILIES[record["family"]](target.dim, **record["family_options"]),
        params=values["params"],
        whitening=Whitening(values["centre"], values["scale"]),
        importance=importance_sample(
            values["importance_z"],
            values["importance_log_p"],
            values["importance_log_q"],
            values["importance_log_proposal"],
            record["n_q"],
        ),
        trace=trace_of(saved),
        counts=EvaluationCounts(**record["counts"]),
        **extra,
        **{
            key: record[key]
            for key in (
                "stopped_by",
                "iterations",
                "seed",
                "settings",
                "start_note",
                "seconds",
                "warnings",
                "choice",
            )
        },
    )


def trace_arrays(trace: Trace) -> dict[str, Any]:
    """The trace as variables of a group; ``trace_of`` reads them."""
    return {f"trace_{name}": (("window",), np.asarray(values)) for name, values in vars(trace).items()}


def trace_of(saved: xr.Dataset) -> Trace:
    """The trace that stands in a group. Raises KeyError where there is none."""
    return Trace(**{name: saved[f"trace_{name}"].to_numpy().tolist() for name in vars(Trace())})


def _annealing_arrays(fit: Fit) -> dict[str, Any]:
    if not isinstance(fit, AnnealedFit):
        return {}
    path = fit.annealing
    factor_dims = ("unconstrained",) if path.factor.ndim == 1 else ("unconstrained", "whitened")
    return {
        "annealing_mean": (("unconstrained",), path.mean),
        "annealing_factor": (factor_dims, path.factor),
        "annealing_steps": (("transition", "unconstrained"), np.asarray(path.steps)),
        "annealing_betas": (("transition",), path.betas),
        "annealing_retention": ((), path.retention),
    }


def _mixture_arrays(fit: Fit) -> dict[str, Any]:
    if not isinstance(fit, MixtureFit):
        return {}
    return {
        "mixture_weights": (("component",), fit.mixture.weights),
        "mixture_means": (("component", "whitened"), fit.mixture.means),
        "mixture_factors": (("component", "whitened", "column"), fit.mixture.factors),
    }


def _kind(values: dict[str, NDArray]) -> tuple[type[Fit], dict[str, Any]]:
    """The kind of fit, and what it has beside what every fit has."""
    if "mixture_weights" in values:
        parts = (values[f"mixture_{name}"] for name in ("weights", "means", "factors"))
        return MixtureFit, {"mixture": StudentMixture(*parts)}
    if "annealing_steps" not in values:
        return Fit, {}
    mean, factor, steps, betas = (values[f"annealing_{name}"] for name in Annealing._fields[:4])
    path = Annealing(mean, factor, steps, betas, float(values["annealing_retention"]))
    return AnnealedFit, {"annealing": path}
