"""NUTS, the sampler that variational fits are held against: CmdStan's, through CmdStanPy."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dais_stan import arviz_io
from dais_stan.arviz_io import arviz
from dais_stan.checks import chosen_seed
from dais_stan.engines.cmdstan import cmdstan_model
from dais_stan.engines.nuts import run_nuts
from dais_stan.errors import EngineError
from dais_stan.target import Target
from dais_stan.verdicts import not_trusted

#: Thresholds of Vehtari et al. (2021) for R-hat and bulk ESS, and of Betancourt (2016) for E-BFMI.
RHAT_LIMIT, ESS_PER_CHAIN, BFMI_LIMIT = 1.01, 100, 0.3


@dataclass(frozen=True)
class NutsFit(arviz_io.Chains):
    """Draws of NUTS and how far they can be trusted.

    Attributes:
        name: of the program.
        values: variable -> (chain, draw, *declared shape), in declared order, generated quantities included.
        sample_stats: lp, acceptance_rate, step_size, tree_depth, n_steps, diverging, energy: (chain, draw).
        seed: of the run.
        seconds: wall time, without compiling.
        gradient_evaluations: leapfrog steps of all chains, warmup included.
        init_radius: of the box about the origin of the unconstrained space where the chains started; None
            where the starts were given.
        data: the program's data.
        settings: the arguments of :func:`sample`.
    """

    name: str
    values: dict[str, NDArray[np.float64]]
    sample_stats: dict[str, NDArray]
    seed: int
    seconds: float
    gradient_evaluations: int
    init_radius: float | None
    data: Mapping[str, Any] | None = field(repr=False, default=None)
    settings: dict[str, Any] = field(default_factory=dict)

    def draws(self, n: int | None = None, seed: int | None = None) -> dict[str, NDArray[np.float64]]:
        """The draws of all chains as one: variable -> (n, *declared shape).

        Args:
            n: how many, taken at random without repeats; None: all, chain after chain.
            seed: of the choice; None: the run's own.

        Raises:
            ValueError: n is above the number of draws.
        """
        chains, draws = self.sample_stats["lp"].shape
        flat = {name: value.reshape(-1, *value.shape[2:]) for name, value in self.values.items()}
        if n is None:
            return flat
        if not 0 < n <= chains * draws:
            raise ValueError(f"n must be between 1 and {chains * draws}, the number of draws, not {n}.")
        rng = np.random.default_rng(self.seed if seed is None else seed)
        chosen = rng.choice(chains * draws, size=n, replace=False)
        return {name: value[chosen] for name, value in flat.items()}

    @cached_property
    def rhat(self) -> dict[str, float]:
        """Rank-normalised split R-hat of each scalar that varies, by Stan's name ("theta[1]")."""
        return self._each_scalar(arviz.rhat)

    @cached_property
    def ess(self) -> dict[str, float]:
        """Bulk effective sample size of each scalar that varies."""
        return self._each_scalar(arviz.ess)

    @property
    def divergences(self) -> int:
        """Divergent transitions after warmup, in all chains."""
        return int(self.sample_stats["diverging"].sum())

    @property
    def bfmi(self) -> NDArray[np.float64]:
        """Energy Bayesian fraction of missing information of each chain (Betancourt 2016, eq. 2)."""
        energy = self.sample_stats["energy"]
        spread = np.sum((energy - energy.mean(axis=1, keepdims=True)) ** 2, axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.sum(np.diff(energy, axis=1) ** 2, axis=1) / spread

    @cached_property
    def warnings(self) -> list[str]:
        """What speaks against convergence, each a phrase; empty is good."""
        found = [
            f"{name} has draws that are not finite"
            for name, value in self.values.items()
            if not np.isfinite(value).all()
        ]
        worst = max(self.rhat, key=lambda name: _as_bad(self.rhat[name]), default=None)
        if worst is not None and not self.rhat[worst] < RHAT_LIMIT:
            found.append(f"R-hat of {worst} is {self.rhat[worst]:.3f}, not below {RHAT_LIMIT}")
        least = min(self.ess, key=lambda name: -_as_bad(-self.ess[name]), default=None)
        enough = ESS_PER_CHAIN * len(self.sample_stats["lp"])
        if least is not None and not self.ess[least] >= enough:
            found.append(f"the bulk ESS of {least} is {self.ess[least]:.0f}, below {enough}")
        if self.divergences:
            found.append(f"{self.divergences} transitions diverged")
        if np.any(self.bfmi < BFMI_LIMIT):
            found.append(f"the E-BFMI of a chain is {self.bfmi.min():.2f}, below {BFMI_LIMIT}")
        return found

    @property
    def converged(self) -> bool:
        """Whether nothing speaks against convergence; :meth:`verdict` says what does."""
        return not self.warnings

    def verdict(self) -> str:
        """How far the draws are to be trusted, in words."""
        if self.warnings:
            return not_trusted(self.warnings)
        return (
            f"No trouble found: every R-hat is below {RHAT_LIMIT}, the least bulk ESS is "
            f"{min(self.ess.values(), default=np.nan):.0f}, and no transition diverged."
        )

    def groups(self) -> arviz_io.Groups:
        """The ArviZ groups, with attributes saying how the draws were made."""
        groups = arviz_io.posterior_groups(self.values, self.data)
        groups["sample_stats"] = arviz_io.dataset(self.sample_stats)
        groups["posterior"].attrs |= self.attributes()
        return groups

    def attributes(self) -> dict[str, Any]:
        """How the draws were made and what was found, as netCDF attributes."""
        from . import __version__

        return {
            "inference_library": "dais-stan",
            "inference_library_version": __version__,
            "method": "nuts",
            "seed": self.seed,
            "chains": len(self.sample_stats["lp"]),
            "init_radius": "given" if self.init_radius is None else self.init_radius,
            "divergences": self.divergences,
            "max_rhat": max(self.rhat.values(), default=np.nan),
            "min_ess_bulk": min(self.ess.values(), default=np.nan),
            "seconds": self.seconds,
            "gradient_evaluations": self.gradient_evaluations,
            **{f"setting_{name}": str(value) for name, value in self.settings.items()},
            "verdict": self.verdict(),
        }

    def save(self, path: str | os.PathLike[str]) -> arviz_io.Groups:
        """Write a netCDF file that ArviZ opens; returns the groups that are in it."""
        groups = self.groups()
        arviz_io.save(groups, path)
        return groups

    def _each_scalar(self, statistic: Any) -> dict[str, float]:
        """``statistic`` of an ArviZ dataset, for each scalar that is finite and varies."""
        scalars = arviz_io.scalars(arviz_io.dataset(self.values))
        varying = {name: x for name, x in scalars.items() if np.isfinite(x).all() and np.ptp(x) > 0}
        if not varying:
            return {}
        together = arviz_io.dataset({"x": np.stack(list(varying.values()), axis=-1)})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # too few draws give NaN, which is reported
            values = statistic(together)["x"].to_numpy()
        return dict(zip(varying, values.tolist(), strict=True))


def _as_bad(value: float) -> float:
    """NaN, which comes of too few draws, is the worst that a statistic can be."""
    return np.inf if np.isnan(value) else value


def sample(
    target: Target,
    chains: int = 4,
    seed: int | None = None,
    iter_warmup: int = 1000,
    iter_sampling: int = 1000,
    **cmdstan: Any,
) -> NutsFit:
    """Sample a Stan program's posterior with NUTS.

    Chains start uniformly within 2 of the origin of the unconstrained space; where none can, the box is
    halved until they can, and the log says so.

    Args:
        target: made by :meth:`Target.from_stan`.
        seed: of everything random, in the transformed data block too; None: a fresh one.
        cmdstan: further arguments of CmdStanPy's ``CmdStanModel.sample``, such as ``adapt_delta``,
            ``max_treedepth``, ``metric``, ``inits``, ``thin``, ``parallel_chains``, ``output_dir``.

    Raises:
        ValueError: a bad argument, or a target that is no Stan program.
        StanCompileError: the program does not compile.
        TargetError: no finite start, or the run failed.
        EngineError: no usable Stan.
    """
    if target.program is None:
        raise ValueError(f"target must be a Stan program to be sampled by NUTS, but {target.name} is not.")
    seed = chosen_seed(seed)
    run = run_nuts(
        cmdstan_model(target.program),
        target.data_json,
        chains=chains,
        seed=seed,
        iter_warmup=iter_warmup,
        iter_sampling=iter_sampling,
        options=cmdstan,
    )
    if len(run.names) != sum(variable.columns.size for variable in target.variables.values()):
        raise EngineError(f"BridgeStan and CmdStan disagree on the variables of {target.name}.")
    result = NutsFit(
        name=target.name,
        values={name: run.draws[:, :, variable.columns] for name, variable in target.variables.items()},
        sample_stats=run.stats,
        seed=seed,
        seconds=run.seconds,
        gradient_evaluations=run.gradient_evaluations,
        init_radius=run.init_radius,
        data=target.data,
        settings={"iter_warmup": iter_warmup, "iter_sampling": iter_sampling, **cmdstan},
    )
    for message in result.warnings:
        warnings.warn(message, stacklevel=2)
    return result
