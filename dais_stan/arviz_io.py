"""ArviZ objects and netCDF files: InferenceData on ArviZ 0.x, DataTree on 1.x, one set of groups for both."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

with warnings.catch_warnings():
    # ArviZ 0.x announces its own successor on import; both generations work here.
    warnings.simplefilter("ignore", FutureWarning)
    import arviz

Groups = dict[str, xr.Dataset]

#: ArviZ 0.x, with InferenceData; 1.x keeps that name for xarray.DataTree.
LEGACY_ARVIZ = arviz.__version__.startswith("0.")


def dataset(arrays: Mapping[str, NDArray], sample_dims: tuple[str, ...] = ("chain", "draw")) -> xr.Dataset:
    """Arrays whose leading axes are ``sample_dims``; further axes get ArviZ's names NAME_dim_0, ...

    A variable with the name of a dimension, such as a parameter called draw, gets an underscore and a
    warning: under its own name xarray would take it for the dimension's coordinate.
    """
    shapes = {name: np.shape(values)[len(sample_dims) :] for name, values in arrays.items()}
    extra = {name: [f"{name}_dim_{i}" for i in range(len(shape))] for name, shape in shapes.items()}
    taken = {*sample_dims, *(dim for dims in extra.values() for dim in dims)}
    variables: dict[str, Any] = {}
    coords: dict[str, Any] = {}
    for name, values in arrays.items():
        label = name
        while label in taken or (label != name and label in arrays):
            label += "_"
        if label != name:
            warnings.warn(
                f"variable {name} is {label} in ArviZ's groups: {name} is a dimension", stacklevel=2
            )
        variables[label] = ((*sample_dims, *extra[name]), np.asarray(values))
        coords |= {dim: np.arange(size) for dim, size in zip(extra[name], shapes[name], strict=True)}
    out = xr.Dataset(variables)
    coords |= {dim: np.arange(out.sizes[dim]) for dim in sample_dims if dim in out.sizes}
    return out.assign_coords(coords)


def posterior_groups(draws: Mapping[str, NDArray], data: Mapping[str, Any] | None) -> Groups:
    """Groups ``posterior``, ``log_likelihood`` (from a variable log_lik) and ``observed_data``."""
    draws = dict(draws)
    groups: Groups = {}
    if "log_lik" in draws:
        groups["log_likelihood"] = dataset({"log_lik": draws.pop("log_lik")})
    groups["posterior"] = dataset(draws)
    observed = {name: np.asarray(value) for name, value in (data or {}).items() if _numeric(value)}
    if observed:
        groups["observed_data"] = dataset(observed, sample_dims=())
    return groups


def _numeric(value: Any) -> bool:
    try:
        return np.asarray(value).dtype.kind in "iufb"
    except ValueError:  # a ragged list (a Stan tuple) is no array
        return False


def to_arviz(groups: Groups) -> Any:
    """InferenceData on ArviZ 0.x, xarray.DataTree on ArviZ 1.x."""
    if LEGACY_ARVIZ:
        return arviz.InferenceData(**groups)
    return xr.DataTree.from_dict(groups)


class Chains:
    """What results with draws in chains have in common; ``groups`` is theirs."""

    def groups(self) -> Groups:
        """The ArviZ groups, with attributes saying how the draws were made."""
        raise NotImplementedError

    def to_arviz(self) -> Any:
        """InferenceData (ArviZ 0.x) or DataTree (1.x)."""
        return to_arviz(self.groups())

    def summary(self, kind: str = "all") -> Any:
        """ArviZ's summary of the posterior, a pandas DataFrame."""
        return summary(self.groups()["posterior"], kind)


def save(groups: Groups, path: str | os.PathLike[str]) -> None:
    """Write a netCDF file that ArviZ reads, through a temporary name so that no half-written file is left."""
    path = Path(path)
    partial = path.with_name(path.name + ".partial")
    xr.DataTree.from_dict(groups).to_netcdf(partial, engine="h5netcdf")
    os.replace(partial, path)


def read(path: str | os.PathLike[str]) -> Groups:
    """Groups of a netCDF file, loaded into memory. Raises ValueError where the file is not one of ArviZ's."""
    path = Path(path)
    if not path.exists():
        raise ValueError(f"{path}: no such file")
    if path.is_dir():
        raise ValueError(f"{path} must be a netCDF file, found a folder")
    try:
        with xr.open_datatree(path, engine="h5netcdf") as tree:
            groups = {name: node.to_dataset().load() for name, node in tree.children.items()}
    except Exception as error:  # HDF5's layers raise all kinds over a damaged file
        raise ValueError(f"{path} is not a netCDF file of ArviZ groups: {error}") from error
    if "posterior" not in groups:
        raise ValueError(f"{path} has no posterior group; its groups are {sorted(groups) or 'none'}")
    return groups


def scalars(posterior: xr.Dataset) -> dict[str, NDArray]:
    """Each scalar of a posterior by its Stan name, theta[1] or M[2,3], as an array (chain, draw)."""
    out = {}
    for name, array in posterior.data_vars.items():
        values = array.transpose("chain", "draw", ...).to_numpy()
        for index in np.ndindex(*values.shape[2:]):
            label = f"{name}[{','.join(str(i + 1) for i in index)}]" if index else str(name)
            out[label] = values[(slice(None), slice(None), *index)]
    return out


def summary(posterior: xr.Dataset, kind: str = "all") -> Any:
    """ArviZ's summary of the variables that have entries: a pandas DataFrame, its rows by Stan name."""
    filled = posterior[[name for name, array in posterior.data_vars.items() if array.size]]
    table = arviz.summary(to_arviz({"posterior": filled}), kind=kind, round_to="none")
    table.index = list(scalars(filled))
    return table
