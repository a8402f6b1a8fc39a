"""The estimates of a posterior that the paper's tables compare, each from a fit.

A cell has a ``preset``: "paper" for the settings of Zenn & Bamler (2024) with the cell's ``iterations`` and
``batch`` (groups of N particles in each step), or "default" for this library's own, warm start, learning
rates and stopping rule included.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from published import absolute_errors
from study import Cell

import dais_stan as ds
from dais_stan.annealed import AnnealedFit
from dais_stan.methods import make_method
from dais_stan.objectives.iwelbo import resampled_draws
from dais_stan.whitening import WhitenedTarget

Moments = tuple[NDArray, NDArray]  # mean (D,) and covariance (D, D)


def q_moments(fit: ds.Fit) -> tuple[NDArray, NDArray]:
    """Mean and standard deviations, (D,) each, of a mean-field q, or q0, on the target's coordinates."""
    return fit.whitening.affine(*fit.family.moments(fit.params))


def _of_q(fit: ds.Fit) -> Moments:
    mean, sd = q_moments(fit)
    return mean, np.diag(sd**2)


def _fit(target: ds.Target, method: str, cell: Cell, **options: Any) -> ds.Fit:
    options |= {"particles": cell["particles"], "importance_draws": cell["evaluation_draws"]}
    if cell["preset"] == "paper":
        schedule = make_method(method, "paper").schedule
        options |= {"preset": "paper", "schedule": replace(schedule, max_iterations=cell["iterations"])}
        if method != "msc":
            options["groups"] = cell["batch"]
    return ds.fit(target, method, seed=cell["seed"], **options)


def _course(fit: ds.Fit) -> dict[str, Any]:
    """How many iterations, and the objective's mean over each tenth of them."""
    tenths = np.array_split(fit.trace.value, 10)
    return {"iterations_run": fit.iterations, "objective": _rounded(np.array([t.mean() for t in tenths]), 6)}


def _iwvi(target: ds.Target, cell: Cell) -> tuple[dict[str, Moments], dict[str, Any]]:
    """q, and draws by resampling, each one of ``sir_candidates``."""
    fit = _fit(target, "iwvi", cell)
    density, rng = WhitenedTarget(target, fit.whitening), np.random.default_rng(cell["seed"])
    sizes = (cell["sir_candidates"], cell["sir_draws"])
    draws = fit.whitening.to_z(resampled_draws(density, fit.family, fit.params, *sizes, rng))
    return {"iwvi": _of_q(fit), "sir": (draws.mean(axis=0), np.cov(draws.T))}, _course(fit)


def _dais(target: ds.Target, cell: Cell) -> tuple[dict[str, Moments], dict[str, Any]]:
    """q0 (DAIS_0), and the trajectories' ends (DAIS) without and with their weights."""
    fit = _fit(target, "dais", cell, transitions=cell["transitions"])
    assert isinstance(fit, AnnealedFit)
    ends = {"dais": fit.end_moments(False), "dais_weighted": fit.end_moments(True)}
    return {"dais0": _of_q(fit), **ends}, _course(fit)


def _msc(target: ds.Target, cell: Cell) -> tuple[dict[str, Moments], dict[str, Any]]:
    """One chain, and eight."""
    fits = {f"msc{chains}": _fit(target, "msc", cell, chains=chains) for chains in (1, 8)}
    return {name: _of_q(fit) for name, fit in fits.items()}, _course(fits["msc8"])


_ESTIMATES = {"iwvi": _iwvi, "dais": _dais, "msc": _msc}

Run = tuple[str, str, int, int]  # preset, method, N and K (0: none)


def grid(particles: Iterable[int], transitions: Iterable[int]) -> list[Run]:
    """The runs of the published tables; one particle is no Markov chain."""
    particles, transitions = tuple(particles), tuple(transitions)
    out: list[Run] = [("paper", "iwvi", n, 0) for n in particles]
    out += [("paper", "dais", n, k) for n in particles for k in transitions]
    return out + [("paper", "msc", n, 0) for n in particles if n > 1]


#: The defaults beside them.
DEFAULTS: list[Run] = [("default", "iwvi", 16, 0), ("default", "dais", 16, 16), ("default", "msc", 16, 0)]


def estimate(target: ds.Target, cell: Cell, reference: Moments) -> dict[str, Any]:
    """``mae``, mean absolute errors of every estimate of the cell's method, with the fit's course; and
    ``moments``, rounded, where the cell has "moments".
    """
    moments, course = _ESTIMATES[cell["method"]](target, cell)
    sd = np.sqrt(np.diag(reference[1]))
    mae = {
        name: absolute_errors(mean, np.sqrt(np.diag(covariance)), (reference[0], sd))
        for name, (mean, covariance) in moments.items()
    }
    out: dict[str, Any] = {"mae": mae, **course}
    if cell.get("moments"):
        out["moments"] = {
            name: [_rounded(mean), [_rounded(row) for row in covariance]]
            for name, (mean, covariance) in moments.items()
        }
    return out


def _rounded(numbers: NDArray, digits: int = 4) -> list[float]:
    return [float(f"{number:.{digits}g}") for number in numbers]
