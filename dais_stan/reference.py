"""Make a reference posterior: long NUTS to posteriordb's standard, kept as a compact record.

posteriordb asks of its reference draws ten chains, every R-hat below 1.01, no divergent transition, no low
E-BFMI, and thinning until the draws are nearly independent.
"""

from __future__ import annotations

import hashlib
import json
import logging
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import arviz_io
from .arviz_io import arviz
from .errors import TargetError
from .nuts import BFMI_LIMIT, RHAT_LIMIT, NutsFit, sample
from .posteriordb import Posterior
from .target import Target

logger = logging.getLogger("dais_stan")

CHAINS, WARMUP, DRAWS_PER_CHAIN = 10, 2000, 1000
#: Tried in turn, until the draws pass: every how manyth draw is kept, and the target acceptance rate.
SETTINGS = ((10, 0.8), (10, 0.95), (20, 0.99))
#: Thinned draws count as nearly independent when each scalar's effective sample size is this share of them.
INDEPENDENT = 0.8
QUANTILES = (0.05, 0.5, 0.95)


def make_reference(
    posterior: Posterior, seed: int = 1, engine: str = "auto", parallel_chains: int | None = None
) -> dict[str, Any]:
    """A record of plain values: names, moments with their errors, quantiles, diagnostics, settings, cost.

    ``default_nuts`` is one default run (4 chains of 1000 + 1000): what a user pays, and how near it comes.
    Raises TargetError where no setting passes; the message says what failed last.
    """
    target = posterior.target(engine)
    faults: list[str] = []
    for thin, adapt_delta in SETTINGS:
        fit = _sample(
            target,
            CHAINS,
            seed,
            iter_warmup=WARMUP,
            iter_sampling=thin * DRAWS_PER_CHAIN,
            thin=thin,
            adapt_delta=adapt_delta,
            parallel_chains=parallel_chains,
        )
        names, values = _scalars(fit, posterior)
        faults = _faults(fit, names, values)
        if not faults:
            return _record(posterior, target, fit, names, values) | {
                "default_nuts": _default_run(target, posterior, names, values, seed + 1)
            }
        logger.info("%s: thinned by %d, %s", posterior.name, thin, "; ".join(faults))
    raise TargetError(f"NUTS gave no reference for {posterior.name}: {'; '.join(faults)}")


def _sample(target: Target, chains: int, seed: int, **options: Any) -> NutsFit:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what it warns of is judged here
        return sample(target, chains=chains, seed=seed, **options)


def _scalars(fit: NutsFit, posterior: Posterior) -> tuple[tuple[str, ...], NDArray]:
    """Names and draws (chain, draw, scalar): those of an existing reference, otherwise all that vary."""
    draws = arviz_io.scalars(arviz_io.dataset(fit.values))
    wanted = posterior.reference.names if posterior.reference else tuple(draws)
    names = tuple(name for name in wanted if name in draws and np.ptp(draws[name]) > 0)
    return names, np.stack([draws[name] for name in names], axis=-1)


def _statistic(function: Any, values: NDArray, **options: Any) -> NDArray:
    """An ArviZ statistic of draws (chain, draw, scalar), shape (scalar,)."""
    return function(arviz_io.dataset({"x": values}), **options)["x"].to_numpy()


def _faults(fit: NutsFit, names: tuple[str, ...], values: NDArray) -> list[str]:
    found = []
    rhat, ess = _statistic(arviz.rhat, values), _statistic(arviz.ess, values)
    least = INDEPENDENT * values.shape[0] * values.shape[1]
    if not (rhat < RHAT_LIMIT).all():
        found.append(f"R-hat of {names[int(rhat.argmax())]} is {rhat.max():.4f}, not below {RHAT_LIMIT}")
    if not (ess >= least).all():
        found.append(f"the ESS of {names[int(ess.argmin())]} is {ess.min():.0f}, below {least:.0f}")
    if fit.divergences:
        found.append(f"{fit.divergences} transitions diverged")
    if (fit.bfmi < BFMI_LIMIT).any():
        found.append(f"the E-BFMI of a chain is {fit.bfmi.min():.2f}, below {BFMI_LIMIT}")
    return found


def _record(
    posterior: Posterior, target: Target, fit: NutsFit, names: tuple[str, ...], values: NDArray
) -> dict[str, Any]:
    from . import __version__

    flat = values.reshape(-1, len(names))
    code = target.program.code if target.program else ""
    columns = {
        "mean": flat.mean(axis=0),
        "sd": flat.std(axis=0, ddof=1),
        "mcse_mean": _statistic(arviz.mcse, values, method="mean"),
        "mcse_sd": _statistic(arviz.mcse, values, method="sd"),
        "ess_bulk": _statistic(arviz.ess, values),
        "rhat": _statistic(arviz.rhat, values),
        **{f"q{100 * q:02.0f}": np.quantile(flat, q, axis=0) for q in QUANTILES},
    }
    return {
        "name": posterior.name,
        "parameter_names": list(names),
        **{key: [float(f"{value:.8g}") for value in column] for key, column in columns.items()},
        "sampler": {
            "method": "NUTS of CmdStan, through dais-stan",
            "chains": len(values),
            "draws_per_chain": values.shape[1],
            **{key: value for key, value in fit.settings.items() if key != "parallel_chains"},
            "seed": fit.seed,
        },
        "diagnostics": {
            "divergences": fit.divergences,
            "least_bfmi": float(f"{fit.bfmi.min():.3g}"),
        },
        "gradient_evaluations": fit.gradient_evaluations,
        "program_sha256": _digest(code),
        "data_sha256": _digest(json.dumps(posterior.data, sort_keys=True)),
        "dais_stan": __version__,
    }


def _default_run(
    target: Target, posterior: Posterior, names: tuple[str, ...], values: NDArray, seed: int
) -> dict[str, Any]:
    """A default run of NUTS held against the long one."""
    fit = _sample(target, 4, seed)
    draws = arviz_io.scalars(arviz_io.dataset(fit.values))
    mine = np.stack([draws[name].ravel() for name in names], axis=-1)
    flat = values.reshape(-1, len(names))
    sd = flat.std(axis=0, ddof=1)
    return {
        "gradient_evaluations": fit.gradient_evaluations,
        "worst_mean_error": float(np.abs((mine.mean(axis=0) - flat.mean(axis=0)) / sd).max()),
        "worst_log_sd": float(np.abs(np.log(mine.std(axis=0, ddof=1) / sd)).max()),
        "warnings": fit.warnings,
        "seed": fit.seed,
    }


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
