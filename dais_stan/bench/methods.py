"""The methods of the benchmark by name, each a run that leaves an Outcome."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from .. import arviz_io
from ..engines.cmdstan import cmdstan_model
from ..fitting import fit
from ..nuts import sample
from ..target import Target
from .outcome import Budget, Outcome
from .rivals import RIVALS, run_rival

#: Draws of a fit, which are cheap where q is compact.
FIT_DRAWS = 10_000
#: Our own methods: the name and options that ``dais_stan.fit`` takes.
FITS: dict[str, tuple[str, dict[str, Any]]] = {
    "auto": ("auto", {}),
    "meanfield": ("meanfield", {}),
    "fullrank": ("fullrank", {}),
    "iwvi": ("iwvi", {"family": "fullrank"}),
    "dais0": ("dais0", {}),
    "dais": ("dais", {}),
    "msc": ("msc", {"family": "fullrank"}),
    "o-sylvester": ("flow", {"family": "o-sylvester"}),
    "iaf": ("flow", {"family": "iaf"}),
}
METHODS = (*FITS, "mix", *RIVALS, "nuts")
#: 600 components say enough of moments, and each costs M gradients for every leapfrog step.
MIX_WARMUP, MIX_DRAWS = 150, 150


def compile_for(name: str, target: Target) -> None:
    """Compile what the method of this name needs beside the target, outside its run's time."""
    if name == "mix":
        from infmix.psi import KINDS

        KINDS["meanfield"].compiled()
    elif name not in FITS and target.program is not None:
        cmdstan_model(target.program)


def run_method(name: str, target: Target, seed: int, budget: Budget) -> Outcome:
    """One run of the method of this name. Raises OverBudget, or what the method raises."""
    if name in FITS:
        return _fit(name, target, seed, budget)
    if name == "mix":
        return _mix(target, seed, budget)
    if name == "nuts":
        return _nuts(target, seed, budget)
    return run_rival(name, target, seed, budget)


def _flat(posterior: Any) -> dict[str, np.ndarray]:
    return {name: values.ravel() for name, values in arviz_io.scalars(posterior).items()}


def _fit(name: str, target: Target, seed: int, budget: Budget) -> Outcome:
    method, options = FITS[name]
    began, before = time.perf_counter(), target.counts.gradient

    def watch(*_: Any) -> None:
        budget.check(target.counts.gradient - before, time.perf_counter() - began)

    result = fit(target, method, seed=seed, progress=watch, **options)
    watch()
    return Outcome(
        _flat(result.groups(FIT_DRAWS)["posterior"]),
        gradients=result.counts.gradient,
        evaluations=result.counts.gradient + result.counts.log_density + result.counts.hvp,
        seconds=result.seconds,
        khat=result.khat,
        log_evidence=result.log_evidence if target.normalized else None,
        log_evidence_se=result.log_evidence_se if target.normalized else None,
        warned=bool(result.warnings),
        said=result.choice or "; ".join(result.warnings),
    )


def _mix(target: Target, seed: int, budget: Budget) -> Outcome:
    import infmix

    began = time.perf_counter()
    mixture = infmix.sample(target, chains=4, seed=seed, iter_warmup=MIX_WARMUP, iter_sampling=MIX_DRAWS)
    seconds = time.perf_counter() - began
    draws = {name: values[None] for name, values in mixture.draws(FIT_DRAWS, seed=seed).items()}
    budget.check(mixture.gradient_evaluations, seconds)
    return Outcome(
        _flat(arviz_io.dataset(draws)),
        gradients=mixture.gradient_evaluations,
        evaluations=mixture.gradient_evaluations,
        seconds=seconds,
        khat=mixture.khat,
        log_evidence=mixture.log_evidence if target.normalized else None,
        warned=bool(mixture.warnings),
        said="; ".join(mixture.warnings),
    )


def _nuts(target: Target, seed: int, budget: Budget) -> Outcome:
    result = sample(target, seed=seed, timeout=budget.seconds)
    budget.check(result.gradient_evaluations, result.seconds)
    return Outcome(
        _flat(result.groups()["posterior"]),
        gradients=result.gradient_evaluations,
        evaluations=result.gradient_evaluations,
        seconds=result.seconds,
        warned=not result.converged,
        said="; ".join(result.warnings),
    )
