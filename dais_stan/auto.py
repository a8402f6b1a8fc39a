"""Method "auto": a short ladder of approximations, climbed only as far as k-hat asks for.

1. The Gaussian of any covariance (above ``MAX_DENSE_DIM`` parameters: of diagonal covariance), from the
   best of several modes.
2. A mixture of Student t distributions, adapted to the posterior from there by importance sampling, where
   the first k-hat is too large or another mode has nearly as much of the posterior. It costs no gradients.
3. An inverse autoregressive flow (Kingma et al. 2016), where the mixture does not pass either or there are
   too many parameters for one: each coordinate's place and width may depend on those before it, as they do
   in a hierarchy.

What was tried, what it gave and why one was taken is in ``Fit.choice``. Nothing here sees a reference.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from .adaptive import MixtureFit, adapt, importance_of_mixture
from .approximation import Fit
from .checks import chosen_seed
from .fitting import counts_since, fit, importance_count
from .methods.base import FLOW_SCHEDULE
from .optimize import Schedule
from .psis import KHAT_LIMIT
from .start import MAX_DENSE_DIM, Mode, Start, find_modes
from .target import Target
from .whitening import WhitenedTarget, Whitening

#: A mode whose Gaussian's ELBO is within so many nats of the best one's has some of the posterior.
RIVAL_NATS = 6.0
#: Above this dimension a Student mixture cannot be learned from a few ten thousand draws, and above that a
#: flow takes hours.
MAX_MIXTURE_DIM, MAX_FLOW_DIM = 40, 200
#: Fewer effective draws than this leave errors of more than 0.05 standard deviations, whatever k-hat says.
LEAST_ESS = 400.0


def fit_auto(
    target: Target, *, seed: int | None = None, importance_draws: int | None = None, **first_rung: Any
) -> Fit:
    """The first good rung of the ladder, or the one of least k-hat where none is good.

    ``seed`` and ``importance_draws`` as for ``dais_stan.fit``; ``first_rung`` are its ``schedule``,
    ``progress``, ``checkpoint`` and ``resume``, all of the first rung, which takes longest; the flow's
    iterations are limited by the same schedule. ``counts`` and
    ``seconds`` of the result are those of everything that was tried.
    """
    seed = chosen_seed(seed)
    modes_rng, mixture_rng = (np.random.default_rng(s) for s in np.random.SeedSequence([seed, 1]).spawn(2))
    began, before = time.perf_counter(), replace(target.counts)
    dense = target.dim <= MAX_DENSE_DIM
    modes = find_modes(target, dense=dense, rng=modes_rng)
    rivals = [mode for mode in modes[1:] if mode.elbo > modes[0].elbo - RIVAL_NATS]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # only the rung that is taken has anything to warn of
        first = fit(
            target,
            "fullrank" if dense else "meanfield",
            seed=seed,
            start=modes[0].start,
            importance_draws=importance_draws,
            **first_rung,
        )
        tried = [first]
        if (rivals or not _good(first)) and target.dim <= MAX_MIXTURE_DIM:
            count = importance_count(importance_draws, target.dim)
            tried.append(_mixture(first, rivals, count, mixture_rng))
        if not rivals and not _good(tried[-1]) and target.dim <= MAX_FLOW_DIM:
            tried.append(_flow(first, importance_draws, first_rung.get("schedule")))
    chosen = _choose(tried, bool(rivals))
    chosen.choice = _reason(tried, chosen, modes, rivals)
    chosen.method = "auto"
    chosen.settings = {"method": "auto", "seed": seed, "taken": chosen.settings}
    chosen.counts = counts_since(before, target.counts)
    chosen.seconds = time.perf_counter() - began
    for message in chosen.warnings:
        warnings.warn(message, stacklevel=3)
    return chosen


def _good(one: Fit) -> bool:
    return not one.warnings and one.khat <= KHAT_LIMIT and one.ess >= LEAST_ESS


def _choose(tried: list[Fit], rivals: bool) -> Fit:
    """The last rung is good, or was climbed to see every mode; otherwise the one of least k-hat."""
    if rivals or _good(tried[-1]):
        return tried[-1]
    return min(tried, key=lambda one: one.khat)


def _mixture(first: Fit, rivals: list[Mode], count: int, rng: np.random.Generator) -> MixtureFit:
    """The Student mixture adapted from the first rung's Gaussian and those of the other modes."""
    before = replace(first.target.counts)
    began = time.perf_counter()
    whitening = _own(first)
    density = WhitenedTarget(first.target, whitening)
    starts = [(np.zeros(density.dim), np.eye(density.dim)), *(_in(whitening, mode) for mode in rivals)]
    mixture, rounds = adapt(density, starts, rng)
    return MixtureFit(
        target=first.target,
        method="mixture",
        family=first.family,
        params=first.family.initial(),
        whitening=whitening,
        importance=importance_of_mixture(density, mixture, count, rng),
        mixture=mixture,
        trace=first.trace,
        stopped_by=first.stopped_by,
        iterations=first.iterations,
        seed=first.seed,
        settings={"method": "mixture", "rounds": rounds, "components": len(mixture.weights)},
        start_note=first.start_note,
        counts=counts_since(before, first.target.counts),
        seconds=time.perf_counter() - began,
    )


def _own(first: Fit) -> Whitening:
    """Coordinates in which the Gaussian of the first rung is the standard normal."""
    mean, factor = first.whitening.affine(*first.family.moments(first.params))
    return Whitening(mean, factor if factor.ndim == 2 else np.diag(factor))


def _flow(first: Fit, importance_draws: int | None, given: Schedule | None) -> Fit:
    """An inverse autoregressive flow over the first rung's Gaussian, in as many iterations as it may take."""
    schedule = replace(FLOW_SCHEDULE, max_iterations=given.max_iterations) if given else None
    start = Start(_own(first), "given", f"{first.start_note}; then from the Gaussian fitted there")
    return fit(
        first.target,
        "flow",
        family="iaf",
        seed=first.seed,
        start=start,
        schedule=schedule,
        importance_draws=importance_draws,
    )


def _in(whitening: Whitening, mode: Mode) -> tuple[Any, Any]:
    """Mean and lower-triangular factor of a mode's Gaussian in other coordinates."""
    theirs = mode.start.whitening
    mean = whitening.to_u(theirs.centre[None])[0]
    factor = np.linalg.solve(whitening.scale, theirs.scale)  # both lower-triangular, so this is too
    return mean, np.tril(factor)


def _reason(tried: list[Fit], chosen: Fit, modes: list[Mode], rivals: list[Mode]) -> str:
    """One sentence on what was tried and one on why this was taken."""
    figures = "; ".join(
        f"{one.method}: k-hat {one.khat:.2f}, {one.ess:.0f} of {len(one.importance.z)} draws effective"
        for one in tried
    )
    if len(modes) > 1:
        figures = f"{len(modes)} modes, {len(rivals) + 1} of them with some of the posterior; {figures}"
    if _good(chosen):
        why = "it passes, and nothing simpler does" if len(tried) > 1 else "it passes"
    else:
        why = "no rung passes, and it has the least k-hat"
    return f"Tried {figures}. Took {chosen.method}: {why}."
