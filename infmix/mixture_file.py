"""Mixtures as files: netCDF that ArviZ opens, with a group that ``load`` turns back into the mixture."""

from __future__ import annotations

import json
import os

import xarray as xr

from dais_stan import arviz_io
from dais_stan.recipe import open_recipe, write_recipe
from dais_stan.target import Target

from .mixture import Mixture, sampler_fit
from .psi import KINDS, Psi

_RECORDED = (
    "node_error",
    "seed",
    "seconds",
    "gradient_evaluations",
    "rejected",
    "last_rejection",
    "settings",
)


def mixture_group(mixture: Mixture) -> xr.Dataset:
    """What the groups theta and sample_stats do not hold."""
    psi = mixture.psi
    arrays = {
        "nodes": (("node", "unconstrained"), psi.nodes),
        "omega_min": (("unconstrained",), psi.omega_min),
        "omega_max": (("unconstrained",), psi.omega_max),
    }
    record = {
        **{name: getattr(mixture, name) for name in _RECORDED},
        "components": psi.kind.name,
        "lam": psi.lam,
        "fresh": psi.fresh,
        "psi_seconds": mixture.sampler.seconds,
        "psi_gradients": mixture.sampler.gradient_evaluations,
        "target": write_recipe(mixture.target),
    }
    return xr.Dataset(
        arrays, coords={"unconstrained": list(mixture.target.names)}, attrs={"mixture": json.dumps(record)}
    )


def load(path: str | os.PathLike[str], target: Target | None = None) -> Mixture:
    """Read a mixture saved by ``Mixture.save``; its program is opened again, or ``target`` takes its place.

    Raises ValueError where the file holds no mixture.
    """
    groups = arviz_io.read(path)
    if "mixture" not in groups:
        raise ValueError(f"{path} holds no mixture; its groups are {sorted(groups)}")
    saved = groups["mixture"]
    record = json.loads(saved.attrs["mixture"])
    target = target or open_recipe(record["target"])
    nodes, low, high = (saved[name].to_numpy() for name in ("nodes", "omega_min", "omega_max"))
    theta = {str(name): values.to_numpy() for name, values in groups["theta"].data_vars.items()}
    psi = Psi(target, KINDS[record["components"]], record["lam"], nodes, low, high, record["fresh"])
    return Mixture(
        psi=psi,
        theta=theta,
        sampler=sampler_fit(
            psi,
            theta,
            {str(name): values.to_numpy() for name, values in groups["sample_stats"].data_vars.items()},
            record["seed"],
            record["psi_seconds"],
            record["psi_gradients"],
            record["settings"],
        ),
        **{name: record[name] for name in _RECORDED},
    )
