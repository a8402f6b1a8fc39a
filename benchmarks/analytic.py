"""Closed forms of the Stan programs ``gaussian_process`` and ``bimodal``, for the long studies.

They are compiled from ``analytic.cpp`` and cost next to nothing, so that a study takes the time of the method
alone. Tests hold them to the programs. Data are those of Zenn & Bamler (2024), recovered from their program;
their text has the two kernels the wrong way round and calls the noise's standard deviation its variance.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import platform
import subprocess
import weakref
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dais_stan.engines.batch import NativeBatch, address_of, batch_library
from dais_stan.engines.cache import build_once
from dais_stan.engines.toolchain import compiler
from dais_stan.target import Target
from dais_stan.variables import named_variables

SOURCE = Path(__file__).with_name("analytic.cpp")

#: Length scale of each kernel.
KERNELS = {"RBF_1": 3.0, "RBF_2": 0.8}


def gp_data(kernel: str, d: int) -> dict[str, Any]:
    """Data of ``gaussian_process.stan``: the first d of 25 observations."""
    recovered = json.loads(Path(__file__).with_name("gp_data.json").read_text())
    return {
        "N": d,
        "t": [10 * i / 74 for i in recovered["grid_index"][:d]],
        "y": recovered["y"][kernel][:d],
        "rho": KERNELS[kernel],
        "sigma": 0.1,
        "jitter": 1e-5,
    }


def gp_posterior(data: dict[str, Any]) -> tuple[NDArray, NDArray, float]:
    """Mean (d,), covariance (d, d) and log evidence."""
    t, y = np.asarray(data["t"]), np.asarray(data["y"])
    kernel = np.exp(-0.5 * ((t[:, None] - t) / data["rho"]) ** 2) + data["jitter"] * np.eye(len(t))
    noisy = kernel + data["sigma"] ** 2 * np.eye(len(t))
    gain = np.linalg.solve(noisy, kernel).T
    log_evidence = -0.5 * (y @ np.linalg.solve(noisy, y) + np.linalg.slogdet(2 * np.pi * noisy)[1])
    return gain @ y, kernel - gain @ kernel, float(log_evidence)


def gp_prediction(
    data: dict[str, Any], mean: NDArray, covariance: NDArray, x: NDArray
) -> tuple[NDArray, NDArray]:
    """Mean and standard deviations of the latent function at x (n,), where at the data's t it is N(mean,
    covariance).
    """
    t = np.asarray(data["t"])
    kernel = np.exp(-0.5 * ((t[:, None] - t) / data["rho"]) ** 2) + data["jitter"] * np.eye(len(t))
    cross = np.exp(-0.5 * ((x[:, None] - t) / data["rho"]) ** 2)
    weights = np.linalg.solve(kernel, cross.T).T
    variance = 1.0 + ((weights @ covariance) * weights).sum(axis=1) - (weights * cross).sum(axis=1)
    return weights @ mean, np.sqrt(np.maximum(variance, 0.0))


@cache
def library() -> ctypes.CDLL:
    """The compiled ``analytic.cpp``."""
    command = [compiler(), "-std=c++17", "-O3", "-shared", "-fPIC", str(SOURCE), "-o"]
    identity = SOURCE.read_bytes() + f"{command}{platform.platform()}".encode()

    def build(folder: Path) -> None:
        subprocess.run([*command, str(folder / "analytic.so")], check=True)

    key = hashlib.sha256(identity).hexdigest()[:32]
    loaded = ctypes.CDLL(str(build_once(f"analytic-{key}", build) / "analytic.so"))
    pointer, count, number = ctypes.c_void_p, ctypes.c_long, ctypes.c_double
    loaded.gaussian_new.restype = loaded.bimodal_new.restype = pointer
    loaded.gaussian_new.argtypes = [count, number, pointer, pointer]
    loaded.bimodal_new.argtypes = [count, number, number]
    loaded.density_free.restype, loaded.density_free.argtypes = None, [pointer]
    return loaded


class Density:
    """What a native batch needs of a model: an address and the C functions that take it."""

    def __init__(self, address: int, dim: int) -> None:
        self.model, self.stanlib, self._dim = address, library(), dim
        weakref.finalize(self, library().density_free, address)

    def param_unc_num(self) -> int:
        """D."""
        return self._dim


def _target(density: Density, name: str, reopen: Any) -> Target:
    dim = density.param_unc_num()
    batch = NativeBatch(batch_library(), density, propto=False, thread_safe=True, threads=1)  # type: ignore[arg-type]
    names = tuple(f"z.{i + 1}" for i in range(dim))
    variables = named_variables(names, (dim, dim, dim))
    return Target(batch, names, variables, name=name, normalized=True, has_hvp=True, reopen=reopen)


def gp_target(kernel: str, d: int) -> Target:
    """The posterior of ``gaussian_process.stan``."""
    mean, covariance, log_evidence = gp_posterior(gp_data(kernel, d))
    precision = np.ascontiguousarray(np.linalg.inv(covariance))
    constant = log_evidence - 0.5 * np.linalg.slogdet(2 * np.pi * covariance)[1]
    address = library().gaussian_new(d, constant, address_of(mean), address_of(precision))
    return _target(Density(address, d), f"{kernel}, d = {d}", (gp_target, (kernel, d)))


def bimodal_target(d: int, centre: float = 0.0) -> Target:
    """The density of ``bimodal.stan`` in z - centre: modes at 0 and 1, each with standard deviation 1/4."""
    address = library().bimodal_new(d, centre, 0.25)
    return _target(Density(address, d), f"bimodal, d = {d}", (bimodal_target, (d, centre)))
