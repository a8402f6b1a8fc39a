"""Fit: the result of every variational method, with draws, evidence, diagnostics, and files."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import arviz_io
from .families import Family
from .importance import ImportanceSample
from .optimize import Trace
from .psis import KHAT_LIMIT
from .target import EvaluationCounts, Target
from .verdicts import not_trusted
from .whitening import Whitening


@dataclass
class Fit:
    """A variational approximation q of a posterior, and the evidence of how good it is.

    ``params`` are those of ``family`` in the whitened coordinates of ``whitening``. ``importance`` holds
    fresh draws of q and their weights. ``counts`` are the evaluations that the fit cost, ``seconds`` its
    wall time without compiling. ``warnings`` holds sentences on what is wrong; empty is good. ``choice`` says
    what method "auto" tried and why it took this.
    """

    target: Target
    method: str
    family: Family
    params: NDArray
    whitening: Whitening
    importance: ImportanceSample
    trace: Trace
    stopped_by: str
    iterations: int
    seed: int
    settings: dict[str, Any]
    start_note: str
    counts: EvaluationCounts
    seconds: float
    warnings: list[str] = field(default_factory=list)
    choice: str = ""

    def __post_init__(self) -> None:
        if not self.warnings:
            self.warnings = _warnings(self)

    @property
    def converged(self) -> bool:
        """Whether the stopping rule ended the run, rather than the limit on iterations."""
        return self.stopped_by == "converged"

    @property
    def khat(self) -> float:
        """Pareto k-hat of the importance weights; 0 where they are constant, good up to 0.7.

        The weights are those of f over q widened by a tenth of heavier-tailed draws (see
        ``dais_stan.importance.defensive_noise``), which the evidence and the weighted draws use too.
        """
        return self.importance.khat

    @property
    def ess(self) -> float:
        """Effective number of the importance draws, (sum w)^2 / sum w^2."""
        return self.importance.ess

    @property
    def log_evidence(self) -> float:
        """Log of the mean importance weight; up to a constant where ``target.normalized`` is False."""
        return self.importance.log_evidence

    @property
    def log_evidence_se(self) -> float:
        """Standard error of ``log_evidence``; not to be trusted where k-hat is above 0.7."""
        return self.importance.log_evidence_se

    @property
    def elbo(self) -> float:
        """Mean log weight of fresh draws: a lower bound on the log evidence, up to its error."""
        return self.importance.elbo

    @property
    def elbo_se(self) -> float:
        """Standard error of ``elbo``."""
        return self.importance.elbo_se

    @property
    def weighted(self) -> bool:
        """Whether ``draws`` corrects q by importance resampling: where k-hat allows it."""
        return self.khat <= KHAT_LIMIT

    @cached_property
    def _moments(self) -> tuple[NDArray, NDArray]:
        return self.whitening.affine(*self.family.moments(self.params))

    @property
    def mean(self) -> NDArray:
        """Mean of q in the unconstrained space, shape (D,), in the order of ``target.names``."""
        return self._moments[0]

    @property
    def sd(self) -> NDArray:
        """Standard deviations of q in the unconstrained space, shape (D,)."""
        factor = self._moments[1]
        return factor if factor.ndim == 1 else np.sqrt(np.einsum("ij,ij->i", factor, factor))

    @property
    def covariance(self) -> NDArray:
        """Covariance of q in the unconstrained space, shape (D, D)."""
        factor = self._moments[1]
        return np.diag(factor**2) if factor.ndim == 1 else factor @ factor.T

    def log_prob(self, z: NDArray) -> NDArray:
        """log q at unconstrained points z, (N, D) to (N,) or (D,) to a scalar."""
        points = np.atleast_2d(z)
        if points.shape[-1] != self.target.dim:
            raise ValueError(f"z must have {self.target.dim} numbers a point, found {points.shape[-1]}")
        values = self.family.log_prob(self.params, self.whitening.to_u(points)) - self.whitening.log_det
        return values if np.ndim(z) == 2 else values[0]

    def unconstrained_draws(
        self, n: int = 1000, seed: int | None = None, weighted: bool | None = None
    ) -> NDArray:
        """Draws (n, D) in the unconstrained space; see ``draws`` for ``weighted``."""
        rng = np.random.default_rng(self.seed if seed is None else seed)
        if self.weighted if weighted is None else weighted:
            return self.importance.z[self.importance.resample(n, rng)]
        return self._unweighted(n, rng)[0]

    def _unweighted(self, n: int, rng: np.random.Generator) -> tuple[NDArray, NDArray]:
        """Fresh draws of q (n, D) and log q at each (n,)."""
        sample = self.family.sample(self.params, rng.standard_normal((n, self.target.dim)))
        return self.whitening.to_z(sample.z), sample.log_q - self.whitening.log_det

    def draws(
        self, n: int = 1000, seed: int | None = None, weighted: bool | None = None
    ) -> dict[str, NDArray]:
        """Draws of the model's own variables with generated quantities: name -> (n, *declared shape).

        ``weighted`` True resamples the importance draws by their Pareto-smoothed weights, False draws from q
        itself; the default is True where k-hat is at most 0.7 (``Fit.weighted`` says).
        """
        seed = self.seed if seed is None else seed
        return self.target.constrain(self.unconstrained_draws(n, seed, weighted), seed=seed)

    def groups(self, n: int = 4000, seed: int | None = None, weighted: bool | None = None) -> arviz_io.Groups:
        """The ArviZ groups of ``n`` draws (one chain) with attributes saying how they were made."""
        seed = self.seed if seed is None else seed
        weighted = self.weighted if weighted is None else weighted
        rng = np.random.default_rng(seed)
        if weighted:
            index = self.importance.resample(n, rng)
            z, log_p, log_q = (
                self.importance.z[index],
                self.importance.log_p[index],
                self.importance.log_q[index],
            )
        else:
            z, log_q = self._unweighted(n, rng)
            log_p = self.target.log_density(z)
        draws = {name: values[None] for name, values in self.target.constrain(z, seed=seed).items()}
        groups = arviz_io.posterior_groups(draws, self.target.data)
        statistics = {"lp": log_p, "log_q": log_q, "log_ratio": log_p - log_q}
        groups["sample_stats"] = arviz_io.dataset({k: v[None] for k, v in statistics.items()})
        groups["posterior"].attrs |= {**self.attributes(), "importance_resampled": int(weighted)}
        return groups

    def to_arviz(self, n: int = 4000, seed: int | None = None, weighted: bool | None = None) -> Any:
        """InferenceData (ArviZ 0.x) or DataTree (1.x) of ``n`` draws."""
        return arviz_io.to_arviz(self.groups(n, seed, weighted))

    def summary(self, n: int = 4000, kind: str = "stats") -> Any:
        """ArviZ's summary of ``n`` draws, a pandas DataFrame."""
        return arviz_io.summary(self.groups(n)["posterior"], kind)

    def attributes(self) -> dict[str, Any]:
        """How the fit was made and what it found, as netCDF attributes."""
        from . import __version__

        return {
            "inference_library": "dais-stan",
            "inference_library_version": __version__,
            "method": self.method,
            "seed": self.seed,
            "stopped_by": self.stopped_by,
            "iterations": self.iterations,
            "start": self.start_note,
            "choice": self.choice,
            "elbo": self.elbo,
            "elbo_se": self.elbo_se,
            "log_evidence": self.log_evidence,
            "log_evidence_se": self.log_evidence_se,
            "log_evidence_normalized": int(self.target.normalized),
            "khat": self.khat,
            "ess": self.ess,
            "seconds": self.seconds,
            "gradient_evaluations": self.counts.gradient,
            "log_density_evaluations": self.counts.log_density,
            "rejected_evaluations": self.counts.rejected,
            "verdict": self.verdict(),
        }

    def verdict(self) -> str:
        """How far the fit is to be trusted, in words."""
        if self.warnings:
            return not_trusted(self.warnings)
        return (
            f"No trouble found: the optimiser converged and k-hat is {self.khat:.2f} (at most {KHAT_LIMIT}). "
            "k-hat sees only where q puts its draws: a mode that q misses stays unseen."
        )

    def save(self, path: str | os.PathLike[str], n: int = 4000) -> arviz_io.Groups:
        """Write a netCDF file that ArviZ opens and ``dais_stan.load`` turns back into this Fit.

        Returns the groups that are in it.
        """
        from .fit_file import variational_group

        groups = self.groups(n)
        groups["variational"] = variational_group(self)
        arviz_io.save(groups, path)
        return groups


class DrawnFit(Fit):
    """A fit that is known by its importance draws: its moments are theirs, weighted where ``draws`` are."""

    @cached_property
    def _draw_moments(self) -> tuple[NDArray, NDArray]:
        return self.importance.moments(self.weighted)

    @property
    def mean(self) -> NDArray:
        return self._draw_moments[0]

    @property
    def sd(self) -> NDArray:
        return np.sqrt(np.diagonal(self._draw_moments[1]))

    @property
    def covariance(self) -> NDArray:
        return self._draw_moments[1]


def _warnings(fit: Fit) -> list[str]:
    found = []
    if fit.stopped_by == "max_iterations":
        found.append(
            f"the optimiser did not converge in {fit.iterations} iterations: give it more, or another start"
        )
    if fit.khat > KHAT_LIMIT:
        found.append(
            f"k-hat is {fit.khat:.2f}, above {KHAT_LIMIT}: q misses part of the posterior, and neither its "
            "spread nor the evidence is reliable"
        )
    share = float(np.mean(~np.isfinite(fit.importance.log_p)))
    if share > 0.01:
        reason = fit.target.counts.last_rejection or "log density -inf"
        found.append(f"the density is not finite at {share:.0%} of q's draws ({reason})")
    return found
