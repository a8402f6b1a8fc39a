"""AnnealedFit: the result of annealed importance sampling, draws where its trajectories end."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from .approximation import DrawnFit
from .engines.dais import annealed_draws
from .errors import TargetError
from .importance import ImportanceSample, importance_sample
from .objectives.dais import Annealing
from .objectives.flow_annealing import PulledBack, annealable
from .whitening import WhitenedTarget

#: Trajectories that end where there is no density are run again at most as often.
MOST_ROUNDS = 20


def annealed_importance(
    density: WhitenedTarget | PulledBack, path: Annealing, count: int, rng: np.random.Generator
) -> ImportanceSample:
    """Fresh trajectories' ends with their annealed weights.

    Their law has no density in closed form; ``log_q`` is log f less the log weight, which plays its part:
    the weights are unbiased for the evidence as those of f / q are.
    """
    end = annealed_draws(density, path, count, rng)
    usable = np.isfinite(end.log_weight)
    # An overflowed end is nowhere.
    z, log_det = density.to_target(np.where(usable[:, None], end.z, path.mean))
    log_p = np.where(usable, end.log_f, -np.inf) - log_det
    log_q = np.where(usable, end.log_f - end.log_weight, 0.0) - log_det
    return importance_sample(z, log_p, log_q)


@dataclass
class AnnealedFit(DrawnFit):
    """A fit whose draws are the ends of annealed trajectories, in the coordinates of ``whitening``.

    ``family`` and ``params`` are q0's. ``mean``, ``sd`` and ``covariance`` are of the ends, with weights
    where ``weighted`` says that these can be trusted, since an unstable trajectory may end far off with next
    to no weight. The evidence is the mean annealed weight; ``ess`` says how many draws the weighted ends are
    worth.
    """

    annealing: Annealing = field(kw_only=True)

    def end_moments(self, weighted: bool | None = None) -> tuple[NDArray, NDArray]:
        """Mean (D,) and covariance (D, D) of the trajectories' ends, self-normalised by weight or not."""
        return self.importance.moments(self.weighted if weighted is None else weighted)

    def log_prob(self, z: NDArray) -> NDArray:
        """Not known: raises ValueError."""
        raise ValueError("annealed draws have no density in closed form; family and params give that of q0")

    def _unweighted(self, n: int, rng: np.random.Generator) -> tuple[NDArray, NDArray]:
        """Ends of fresh trajectories (n, D), and log f less the log weight at each (n,)."""
        density = annealable(WhitenedTarget(self.target, self.whitening), self.family, self.params)
        z, log_q = np.empty((n, self.target.dim)), np.empty(n)
        done = 0
        for _ in range(MOST_ROUNDS):
            sample = annealed_importance(density, self.annealing, n - done, rng)
            usable = np.isfinite(sample.log_p)
            more = slice(done, done + int(usable.sum()))
            z[more], log_q[more] = sample.z[usable], sample.log_q[usable]
            done = more.stop
            if done == n:
                return z, log_q
        raise TargetError(f"most annealed trajectories of {self.target.name} end where its density is zero")
