"""The mixture of the components that psi was sampled for: draws, densities, expectations and diagnostics."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import multivariate_t

from dais_stan import arviz_io
from dais_stan.importance import (
    HEAVY_DF,
    HEAVY_SHARE,
    ImportanceSample,
    importance_sample,
    log_with_share,
)
from dais_stan.nuts import NutsFit
from dais_stan.psis import KHAT_LIMIT
from dais_stan.target import Target
from dais_stan.verdicts import not_trusted

from .components import Components
from .psi import Psi

#: log psi's error from its nodes, in nats, above which the mixture is warned of.
NODE_ERROR_LIMIT = 0.5


class Expectation(NamedTuple):
    """An expectation under the mixture, and its Monte Carlo standard error; shape of f's values."""

    value: NDArray
    se: NDArray


@dataclass
class Mixture(arviz_io.Chains):
    """Components N(mu, scale scale^T), one for each draw of psi, in equal parts, on the unconstrained space.

    ``theta`` holds "mu" (chain, draw, D) and "omega", log standard deviations (chain, draw, D) or (chain,
    draw), or "L", lower-triangular factors (chain, draw, D, D). ``node_error`` is the error in log psi that
    the nodes leave, in nats (see ``infmix.sampling.node_error``). ``gradient_evaluations`` and ``rejected``
    count the target's, the mean-field fit for the start included. ``warnings`` holds sentences on what is
    wrong; empty is good.
    """

    psi: Psi
    theta: dict[str, NDArray]
    sampler: NutsFit
    node_error: float
    seed: int
    seconds: float
    gradient_evaluations: int
    rejected: int
    last_rejection: str
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def target(self) -> Target:
        return self.psi.target

    @property
    def lam(self) -> float:
        """lambda, the weight of the Kullback-Leibler divergence; 1 is sampling."""
        return self.psi.lam

    @property
    def shape(self) -> tuple[int, int]:
        """Chains and draws."""
        chains, draws = self.theta["mu"].shape[:2]
        return chains, draws

    @property
    def flat_theta(self) -> dict[str, NDArray]:
        """``theta`` with the chains one after another: (T, ...)."""
        return {name: values.reshape(-1, *values.shape[2:]) for name, values in self.theta.items()}

    @cached_property
    def components(self) -> Components:
        """All T = chains * draws components."""
        return self.psi.kind.components(self.flat_theta)

    @cached_property
    def _moments(self) -> tuple[NDArray, NDArray]:
        return self.components.moments()

    @property
    def mean(self) -> NDArray:
        """Mean of the mixture in the unconstrained space, shape (D,)."""
        return self._moments[0]

    @property
    def covariance(self) -> NDArray:
        """Covariance of the mixture in the unconstrained space, shape (D, D)."""
        return self._moments[1]

    @property
    def sd(self) -> NDArray:
        """Standard deviations of the mixture in the unconstrained space, shape (D,)."""
        return np.sqrt(np.diagonal(self.covariance))

    def log_prob(self, x: NDArray) -> NDArray:
        """Log density of the mixture at unconstrained points, (N, D) to (N,) or (D,) to a scalar.

        At lambda = 1 the components are points and the density says nothing: raises ValueError.
        """
        if self.lam == 1.0:
            raise ValueError("at lam = 1 the mixture is a sample of points and has no density")
        values = self.components.log_prob(np.atleast_2d(x))
        return values if np.ndim(x) == 2 else values[0]

    def unconstrained_draws(self, n: int = 1000, seed: int | None = None) -> NDArray:
        """Draws of the mixture (n, D) in the unconstrained space."""
        return self.components.sample(n, np.random.default_rng(self.seed if seed is None else seed))

    def draws(self, n: int = 1000, seed: int | None = None) -> dict[str, NDArray]:
        """Draws of the model's own variables with generated quantities: name -> (n, *declared shape)."""
        seed = self.seed if seed is None else seed
        return self.target.constrain(self.unconstrained_draws(n, seed), seed=seed)

    def expect(self, f: Callable[[NDArray], NDArray], seed: int | None = None) -> Expectation:
        """The expectation of f(x) under the mixture, x unconstrained, with a standard error.

        f maps (N, D) to (N,) or (N, ...); see ``component_values``. The standard error allows for the
        autocorrelation of the chains.
        """
        return self.mean_of(self.component_values(f, seed))

    def mean_of(self, values: NDArray) -> Expectation:
        """The mean of a value for each component (T, ...), with a standard error as ``expect`` has it."""
        return chain_mean(values.reshape(*self.shape, *values.shape[1:]))

    def component_values(self, f: Callable[[NDArray], NDArray], seed: int | None = None) -> NDArray:
        """What each component has to say of E[f(x)], (T, ...).

        Where f has a method ``expectation(components)`` (see ``infmix.functions``), its exact expectations;
        otherwise f at a draw of each component.
        """
        exact = getattr(f, "expectation", None)
        if exact is not None:
            values = np.asarray(exact(self.components))
        else:
            rng = np.random.default_rng(self.seed if seed is None else seed)
            values = np.asarray(f(self.components.one_of_each(rng)))
        if values.shape[:1] != (len(self.components),):
            raise ValueError(
                f"f must give a value for each of {len(self.components)} points, found shape {values.shape}"
            )
        return values

    @cached_property
    def importance(self) -> ImportanceSample | None:
        """Draws of the mixture with their weights, as many as components; None at lambda = 1.

        A tenth of them come from a Student t with the mixture's moments, and the weights are over both: the
        mixture's own tails are a Gaussian's, too light for most posteriors (Hesterberg 1995).
        """
        if self.lam == 1.0:
            return None
        rng = np.random.default_rng(np.random.SeedSequence(self.seed).spawn(2)[1])
        n_heavy = int(HEAVY_SHARE * len(self.components))
        n_q = len(self.components) - n_heavy
        heavy = heavy_tailed(self.mean, self.covariance, rng)
        x = np.concatenate(
            (self.components.sample(n_q, rng), heavy.rvs(n_heavy).reshape(n_heavy, self.target.dim))
        )
        log_q = self.components.log_prob(x)
        log_proposal = log_with_share(n_heavy / len(x), log_q, heavy.logpdf(x))
        return importance_sample(x, self.target.log_density(x), log_q, log_proposal, n_q)

    @property
    def khat(self) -> float:
        """Pareto k-hat of ``importance``; NaN at lambda = 1."""
        return self.importance.khat if self.importance else np.nan

    @property
    def log_evidence(self) -> float:
        """Log of the mean weight, NaN at lambda = 1; up to a constant where not ``target.normalized``."""
        return self.importance.log_evidence if self.importance else np.nan

    @property
    def log_evidence_se(self) -> float:
        """Standard error of ``log_evidence``; not to be trusted where k-hat is above 0.7."""
        return self.importance.log_evidence_se if self.importance else np.nan

    @property
    def converged(self) -> bool:
        """Whether NUTS on psi converged; at lambda = 1 in mu alone, since omega means nothing there."""
        return self.sampler.converged

    @cached_property
    def warnings(self) -> list[str]:
        """What speaks against the mixture, each a phrase."""
        found = [f"psi: {text}" for text in self.sampler.warnings]
        if self.node_error > NODE_ERROR_LIMIT:
            found.append(
                f"the {len(self.psi.nodes)} nodes leave an error of {self.node_error:.2f} nats in log psi, "
                f"above {NODE_ERROR_LIMIT}: give more nodes"
            )
        return found

    def verdict(self) -> str:
        """How far the mixture is to be trusted, in words."""
        if self.warnings:
            return not_trusted(self.warnings)
        if self.importance is None:
            return "No trouble found: NUTS on psi converged. At lambda = 1 the components are draws."
        if self.khat > KHAT_LIMIT:
            return (
                f"NUTS on psi converged, but k-hat is {self.khat:.2f}, above {KHAT_LIMIT}: the mixture's "
                "density is not near the posterior's everywhere, and the evidence is not reliable."
            )
        return f"No trouble found: NUTS on psi converged and k-hat is {self.khat:.2f} (at most {KHAT_LIMIT})."

    def groups(self) -> arviz_io.Groups:
        """ArviZ groups: a draw of x for each component, NUTS's statistics, and theta in its own group."""
        x = self.components.one_of_each(np.random.default_rng(self.seed))
        values = self.target.constrain(x, seed=self.seed)
        draws = {name: value.reshape(*self.shape, *value.shape[1:]) for name, value in values.items()}
        groups = arviz_io.posterior_groups(draws, self.target.data)
        groups["sample_stats"] = arviz_io.dataset(self.sampler.sample_stats)
        groups["theta"] = arviz_io.dataset(self.theta)
        groups["posterior"].attrs |= self.attributes()
        return groups

    def attributes(self) -> dict[str, Any]:
        """How the mixture was made and what was found, as netCDF attributes."""
        return {
            **self.sampler.attributes(),
            "method": "mix",
            "lambda": self.lam,
            "components": self.psi.kind.name,
            "nodes": len(self.psi.nodes),
            "fresh_nodes": int(self.psi.fresh),
            "node_error": self.node_error,
            "log_evidence": self.log_evidence,
            "log_evidence_se": self.log_evidence_se,
            "log_evidence_normalized": int(self.target.normalized),
            "khat": self.khat,
            "seconds": self.seconds,
            "gradient_evaluations": self.gradient_evaluations,
            "rejected_evaluations": self.rejected,
            "last_rejection": self.last_rejection,
            "verdict": self.verdict(),
        }

    def save(self, path: str | os.PathLike[str]) -> arviz_io.Groups:
        """Write a netCDF file that ArviZ opens and ``infmix.load`` turns back into this mixture.

        Returns the groups that are in it.
        """
        from .mixture_file import mixture_group

        groups = self.groups()
        groups["mixture"] = mixture_group(self)
        arviz_io.save(groups, path)
        return groups


def heavy_tailed(mean: NDArray, covariance: NDArray, seed: np.random.Generator | int) -> Any:
    """SciPy's Student t with these moments, where importance draws beside a Gaussian come from."""
    return multivariate_t(mean, covariance * (HEAVY_DF - 2.0) / HEAVY_DF, HEAVY_DF, seed=seed)


def sampler_fit(
    psi: Psi,
    theta: dict[str, NDArray],
    stats: dict[str, NDArray],
    seed: int,
    seconds: float,
    gradient_evaluations: int,
    settings: dict[str, Any],
) -> NutsFit:
    """NUTS's run of psi as such; at lambda = 1 only mu counts, since omega is the width of a point there."""
    return NutsFit(
        name=f"psi of {psi.target.name}",
        values={"mu": theta["mu"]} if psi.lam == 1.0 else theta,
        sample_stats=stats,
        seed=seed,
        seconds=seconds,
        gradient_evaluations=gradient_evaluations,
        init_radius=None,
        settings=settings,
    )


def chain_mean(values: NDArray) -> Expectation:
    """Mean of (chain, draw, ...) over the first two axes, with the standard error that ArviZ finds."""
    flat = values.reshape(*values.shape[:2], -1)
    mcse = arviz_io.arviz.mcse(arviz_io.dataset({"f": flat}), method="mean")["f"].to_numpy()
    constant = np.ptp(flat, axis=(0, 1)) == 0
    se = np.where(constant, 0.0, mcse).reshape(values.shape[2:])
    return Expectation(values.mean(axis=(0, 1)), se)
