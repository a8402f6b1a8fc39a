"""The estimates of a posterior that the paper's tables compare, each from a fit by the paper's settings."""

from __future__ import annotations

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

Moments = tuple[NDArray, NDArray]  # means and standard deviations, (D,) each


def q_moments(fit: ds.Fit) -> Moments:
    """Mean and standard deviations of q, or q0, on the target's coordinates."""
    return fit.whitening.affine(*fit.family.moments(fit.params))


def paper_fit(target: ds.Target, method: str, cell: Cell, **options: Any) -> ds.Fit:
    """A fit by the paper's settings with the cell's seed and iterations."""
    schedule = replace(make_method(method, "paper", **options).schedule, max_iterations=cell["iterations"])
    options |= {"preset": "paper", "schedule": schedule, "importance_draws": cell["evaluation_draws"]}
    return ds.fit(target, method, seed=cell["seed"], **options)


def _iwvi(target: ds.Target, cell: Cell) -> dict[str, Moments]:
    """q, and draws by resampling, each one of ``sir_candidates``."""
    fit = paper_fit(target, "iwvi", cell, particles=cell["particles"], groups=cell["batch"])
    density, rng = WhitenedTarget(target, fit.whitening), np.random.default_rng(cell["seed"])
    sizes = (cell["sir_candidates"], cell["sir_draws"])
    draws = fit.whitening.to_z(resampled_draws(density, fit.family, fit.params, *sizes, rng))
    return {"iwvi": q_moments(fit), "sir": (draws.mean(axis=0), draws.std(axis=0))}


def _dais(target: ds.Target, cell: Cell) -> dict[str, Moments]:
    """q0 (DAIS_0), and the trajectories' ends (DAIS) without and with their weights."""
    options = {"particles": cell["particles"], "transitions": cell["transitions"], "groups": cell["batch"]}
    fit = paper_fit(target, "dais", cell, **options)
    assert isinstance(fit, AnnealedFit)
    out = {"dais0": q_moments(fit)}
    for name, weighted in (("dais", False), ("dais_weighted", True)):
        mean, covariance = fit.end_moments(weighted)
        out[name] = (mean, np.sqrt(np.diag(covariance)))
    return out


def _msc(target: ds.Target, cell: Cell) -> dict[str, Moments]:
    """One chain, and eight."""
    return {
        f"msc{chains}": q_moments(paper_fit(target, "msc", cell, particles=cell["particles"], chains=chains))
        for chains in (1, 8)
    }


_ESTIMATES = {"iwvi": _iwvi, "dais": _dais, "msc": _msc}


def runs(particles: tuple[int, ...], transitions: tuple[int, ...]) -> list[tuple[str, int, int]]:
    """Method, N and K (0: none) of every run; one particle is no Markov chain."""
    out = [("iwvi", n, 0) for n in particles]
    out += [("dais", n, k) for n in particles for k in transitions]
    return out + [("msc", n, 0) for n in particles if n > 1]


def errors(target: ds.Target, cell: Cell, reference: Moments) -> dict[str, dict[str, float]]:
    """Mean absolute errors of every estimate of the cell's method."""
    moments = _ESTIMATES[cell["method"]](target, cell)
    return {name: absolute_errors(mean, sd, reference) for name, (mean, sd) in moments.items()}
