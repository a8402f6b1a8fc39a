"""A Gaussian moved by a chain of flows, as a family for every objective."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .base import Sample
from .flows import (
    IAF,
    Chain,
    Flow,
    FlowParams,
    HouseholderSylvester,
    OrthogonalSylvester,
    Planar,
    TriangularSylvester,
)
from .gaussian import FullRank, MeanField

#: Number of flows, columns of an orthogonal Sylvester flow, and reflections of a Householder one, at most D.
DEFAULT_FLOWS = 8
MOST_COLUMNS = 16
REFLECTIONS = 8
#: Hidden units of an IAF's network for each dimension, and at least.
IAF_WIDTH, LEAST_WIDTH = 2, 32
#: Draws behind a flow's moments, which have no closed form.
MOMENT_DRAWS = 16_384


def _orthogonal(dim: int, columns: int | None, index: int) -> Flow:
    return OrthogonalSylvester(dim, min(dim, MOST_COLUMNS) if columns is None else columns)


def _iaf(dim: int, columns: int | None, index: int) -> Flow:
    return IAF(dim, max(LEAST_WIDTH, IAF_WIDTH * dim), reverse=index % 2 == 1)


#: Kind of flow -> (dimension, columns, index in the chain) -> flow.
FLOWS: dict[str, Callable[[int, int | None, int], Flow]] = {
    "planar": lambda dim, columns, index: Planar(dim),
    "iaf": _iaf,
    "o-sylvester": _orthogonal,
    "h-sylvester": lambda dim, columns, index: HouseholderSylvester(dim, min(dim, REFLECTIONS)),
    "t-sylvester": lambda dim, columns, index: TriangularSylvester(dim, reverse=index % 2 == 1),
}


class _Tape(NamedTuple):
    base: Any
    state: Any  # of the chain
    chain: Any


class FlowFamily:
    """q(z) with z = T(u): u of a Gaussian ``base``, T a chain of flows.

    log q(z) = log q_base(u) - log |det T'(u)|. Parameters are the base's, then the flows'. ``kind`` is one of
    ``FLOWS``; ``columns`` is M of an orthogonal Sylvester flow, by default min(D, 16). The density at foreign
    points goes through the flows' inverses and the score through their inverse Jacobians, both without
    approximation, so that every gradient estimator for a Gaussian serves a flow too.

    Raises ValueError where ``flows`` or ``columns`` is out of range.
    """

    def __init__(
        self,
        kind: str,
        dim: int,
        flows: int | None = None,
        columns: int | None = None,
        base: str = "meanfield",
    ) -> None:
        flows = DEFAULT_FLOWS if flows is None else flows
        if flows < 1:
            raise ValueError(f"flows must be at least 1, found {flows}")
        self.name = kind
        self.dim = dim
        self.options = {"flows": flows, "columns": columns, "base": base}
        self.base: MeanField | FullRank = MeanField(dim) if base == "meanfield" else FullRank(dim)
        self.chain = Chain(dim, [FLOWS[kind](dim, columns, i) for i in range(flows)])
        self.n_params = self.base.n_params + self.chain.n_own + self.chain.n_shared

    def initial(self, base: NDArray | None = None) -> NDArray:
        """Flows at the identity over ``base`` (the standard normal by default); the same in every run."""
        start = self.chain.initial(np.random.default_rng(0))
        return np.concatenate((self.base.initial() if base is None else base, *start))

    def split(self, params: NDArray) -> tuple[NDArray, FlowParams]:
        """The base's and the flows' parameters."""
        begin, end = self.base.n_params, self.base.n_params + self.chain.n_own
        return params[:begin], FlowParams(params[begin:end], params[end:])

    def sample(self, params: NDArray, eps: NDArray) -> Sample:
        base, flow = self.split(params)
        u, state = self.base.sample(base, eps), self.chain.prepare(flow)
        passed = self.chain.forward(state, u.z)
        return Sample(passed.z, u.log_q - passed.log_det, _Tape(u.tape, state, passed.tape))

    def pullback(self, params: NDArray, tape: _Tape, z_bar: NDArray, log_q_bar: NDArray | None) -> NDArray:
        log_det_bar = np.zeros(len(z_bar)) if log_q_bar is None else -log_q_bar
        u_bar, bar = self.chain.pullback(tape.state, tape.chain, z_bar, log_det_bar)
        base_bar = self.base.pullback(self.split(params)[0], tape.base, u_bar, log_q_bar)
        return np.concatenate((base_bar, *bar))

    def score(self, params: NDArray, tape: _Tape) -> NDArray:
        return self.chain.carry(tape.state, tape.chain, self.base.score(self.split(params)[0], tape.base))

    def log_prob(self, params: NDArray, z: NDArray) -> NDArray:
        base, flow = self.split(params)
        u, log_det = self.chain.inverse(self.chain.prepare(flow), z)
        return self.base.log_prob(base, u) + log_det

    def noise(self, params: NDArray, z: NDArray) -> NDArray:
        """See ``Family``."""
        base, flow = self.split(params)
        return self.base.noise(base, self.chain.inverse(self.chain.prepare(flow), z)[0])

    def moments(self, params: NDArray) -> tuple[NDArray, NDArray]:
        """Mean (D,) and a factor (D, D) of the covariance, from max(16,384, 4 D) draws of fixed noise.

        A flow has no closed form for them: standard errors are about 0.8 % of a standard deviation.
        """
        half = np.random.default_rng(0).standard_normal((max(MOMENT_DRAWS, 4 * self.dim) // 2, self.dim))
        z = self.sample(params, np.concatenate((half, -half))).z
        mean = z.mean(axis=0)
        centred = z - mean
        return mean, np.linalg.cholesky(centred.T @ centred / len(z))
