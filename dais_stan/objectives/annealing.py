"""The parameters of annealed importance sampling as one flat vector for an optimiser."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from ..families.gaussian import FullRank, MeanField
from .dais import Annealing

#: What can be learned; the rest stays as it started.
PARTS = ("q0", "steps", "mass", "betas", "momentum")
#: The momentum's retention stays within these, so that its refreshment is differentiable.
LEAST_RETENTION, MOST_RETENTION = 0.01, 0.99


def _softmax(logits: NDArray) -> NDArray:
    """SciPy's takes five times as long for a vector this short, which a small model would notice."""
    weight = np.exp(logits - logits.max())
    return weight / weight.sum()


class AnnealingParameters:
    """Maps the flat vector to an ``Annealing`` and gradients back.

    The vector holds q0's parameters, log step sizes (K), log masses (D with ``mass`` "diagonal", 1 with
    "scaled"), logits of the increments of beta (K), and the logit of the momentum's retention, in the order
    of ``PARTS``. Maps as in Zenn & Bamler's program: beta is the running sum of a softmax, so that it rises
    to exactly 1. With ``units`` "q0" a step is measured in q0's standard deviations (or its full-rank
    factor), and keeps its quality while q0 changes; with "target", the paper's choice, in the target's
    coordinates, which needs a mean-field q0. ``learn`` names the parts that have a gradient.

    Raises ValueError for an argument out of range.
    """

    def __init__(
        self,
        family: MeanField | FullRank,
        transitions: int,
        mass: str = "diagonal",
        units: str = "q0",
        learn: Collection[str] = PARTS,
    ) -> None:
        if transitions < 1:
            raise ValueError(f"transitions must be at least 1, found {transitions}")
        if mass not in ("diagonal", "scaled"):
            raise ValueError(f"mass must be 'diagonal' or 'scaled', found {mass!r}")
        if units not in ("q0", "target"):
            raise ValueError(f"units must be 'q0' or 'target', found {units!r}")
        if units == "target" and not isinstance(family, MeanField):
            raise ValueError("units 'target' need a mean-field q0: step sizes there are along coordinates")
        if unknown := set(learn) - set(PARTS):
            raise ValueError(f"learn must name some of {', '.join(PARTS)}, found {sorted(unknown)}")
        self.family = family
        self.transitions = transitions
        self._in_q0_units = units == "q0"
        sizes = (family.n_params, transitions, family.dim if mass == "diagonal" else 1, transitions, 1)
        ends = np.cumsum(sizes)
        self._slices = {
            part: slice(end - size, end) for part, size, end in zip(PARTS, sizes, ends, strict=True)
        }
        self.n_params = int(ends[-1])
        self._fixed = [self._slices[part] for part in PARTS if part not in learn]

    def initial(
        self,
        q0: NDArray | None = None,
        *,
        step: float = 0.3,
        log_mass: float = 0.0,
        retention: float = 0.7,
        stiffness: float = 1.0,
    ) -> NDArray:
        """A start (n_params,); ``q0`` None is the standard normal.

        ``stiffness`` is the largest curvature of the log density where q0 has its mass, in q0's units. That
        of the bridge at beta is 1 + beta (stiffness - 1). Betas start so that it grows by one factor from
        each bridge to the next, and steps at ``step`` over its root. At 1 both are equal throughout.
        """
        share = (retention - LEAST_RETENTION) / (MOST_RETENTION - LEAST_RETENTION)
        growth = max(np.log(stiffness), 1e-12) * np.arange(self.transitions + 1) / self.transitions
        increments = np.log(np.diff(np.expm1(growth)))
        params = np.zeros(self.n_params)
        params[self._slices["q0"]] = self.family.initial() if q0 is None else q0
        params[self._slices["steps"]] = np.log(step) - 0.5 * growth[1:]
        params[self._slices["betas"]] = increments - increments.mean()
        params[self._slices["mass"]] = log_mass
        params[self._slices["momentum"]] = logit(share)
        return params

    def part(self, params: NDArray, name: str) -> NDArray:
        """The view of ``params`` that holds one of ``PARTS``."""
        return params[self._slices[name]]

    def q0(self, params: NDArray) -> NDArray:
        """The family's parameters of q0."""
        return self.part(params, "q0")

    def unpack(self, params: NDArray) -> Annealing:
        """What trajectories depend on."""
        mean, factor = self.family.moments(self.q0(params))
        log_mass = np.zeros(self.family.dim) + self.part(params, "mass")
        steps = np.exp(self.part(params, "steps")[:, None] - 0.5 * log_mass)
        betas = np.cumsum(_softmax(self.part(params, "betas")))
        betas[-1] = 1.0  # whatever the sum's rounding
        share = float(expit(self.part(params, "momentum")[0]))
        retention = LEAST_RETENTION + (MOST_RETENTION - LEAST_RETENTION) * share
        return Annealing(mean, factor, steps if self._in_q0_units else steps / factor, betas, retention)

    def pullback(self, params: NDArray, path: Annealing, gradient: Annealing) -> NDArray:
        """Gradient (n_params,) from one in the parts of ``path`` = unpack(params); zero for fixed parts."""
        log_steps_bar = gradient.steps * path.steps
        factor_bar = gradient.factor
        if not self._in_q0_units:
            factor_bar = factor_bar - log_steps_bar.sum(axis=0) / path.factor
        out = np.empty(self.n_params)
        self.part(out, "q0")[:] = self.family.moments_pullback(self.q0(params), gradient.mean, factor_bar)
        self.part(out, "steps")[:] = log_steps_bar.sum(axis=1)
        mass_bar = -0.5 * log_steps_bar.sum(axis=0)
        self.part(out, "mass")[:] = mass_bar if len(self.part(out, "mass")) > 1 else mass_bar.sum()
        share = _softmax(self.part(params, "betas"))
        later = np.cumsum(gradient.betas[::-1])[::-1]  # an increment raises every later beta
        self.part(out, "betas")[:] = share * (later - share @ later)
        sigmoid = expit(self.part(params, "momentum"))
        span = MOST_RETENTION - LEAST_RETENTION
        self.part(out, "momentum")[:] = gradient.retention * span * sigmoid * (1.0 - sigmoid)
        for fixed in self._fixed:
            out[fixed] = 0.0
        return out
