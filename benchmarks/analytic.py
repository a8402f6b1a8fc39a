"""Batched closed forms of the Stan programs ``gaussian_process`` and ``bimodal``, for the long studies.

Tests hold them to the programs. Data are those of Zenn & Bamler (2024), recovered from their program; the
paper's text has the two kernels the wrong way round and calls the noise's standard deviation its variance.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dais_stan.target import Target

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


def gp_target(kernel: str, d: int) -> Target:
    """The posterior of ``gaussian_process.stan``."""
    mean, covariance, log_evidence = gp_posterior(gp_data(kernel, d))
    precision = np.linalg.inv(covariance)
    constant = log_evidence - 0.5 * np.linalg.slogdet(2 * np.pi * covariance)[1]

    def log_density_gradient(z: NDArray) -> tuple[NDArray, NDArray]:
        gradient = (mean - z) @ precision
        return constant + 0.5 * ((z - mean) * gradient).sum(axis=1), gradient

    def hvp(z: NDArray, v: NDArray) -> NDArray:
        return -v @ precision

    return Target.from_functions(log_density_gradient, d, hvp=hvp, name=f"{kernel}, d = {d}")


def bimodal_target(d: int, centre: float = 0.0) -> Target:
    """The density of ``bimodal.stan`` in z - centre: modes at 0 and 1, each with standard deviation 1/4."""
    precision = 16.0
    constant = 0.5 * d * np.log(precision / (2 * np.pi)) + np.log(0.5)

    def log_density_gradient(z: NDArray) -> tuple[NDArray, NDArray]:
        near, far = -(z + centre), 1.0 - (z + centre)
        log_near = -0.5 * precision * (near * near).sum(axis=1)
        log_far = -0.5 * precision * (far * far).sum(axis=1)
        value = np.logaddexp(log_near, log_far)
        share = np.exp(log_far - value)[:, None]
        return constant + value, precision * (near + share)

    def hvp(z: NDArray, v: NDArray) -> NDArray:
        logit = precision * ((z + centre).sum(axis=1) - 0.5 * d)
        share = np.exp(-np.logaddexp(0.0, -logit) - np.logaddexp(0.0, logit))[:, None]  # s (1 - s)
        return -precision * v + precision**2 * share * v.sum(axis=1, keepdims=True)

    return Target.from_functions(log_density_gradient, d, hvp=hvp, name=f"bimodal, d = {d}")
