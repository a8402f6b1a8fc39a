"""Flows one after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .base import Flow, FlowParams, Passed


class Chain:
    """The composition of ``flows``, the first applied first; itself a flow."""

    def __init__(self, dim: int, flows: Sequence[Flow]) -> None:
        if any(flow.dim != dim for flow in flows):
            raise ValueError(f"flows must have dimension {dim}, found {[flow.dim for flow in flows]}")
        self.dim = dim
        self._flows = tuple(flows)
        self._own_ends = np.cumsum([0, *(flow.n_own for flow in flows)])
        self._shared_ends = np.cumsum([0, *(flow.n_shared for flow in flows)])
        self.n_own, self.n_shared = int(self._own_ends[-1]), int(self._shared_ends[-1])

    def initial(self, rng: np.random.Generator) -> FlowParams:
        return _joined([flow.initial(rng) for flow in self._flows])

    def _each(self, params: FlowParams) -> list[tuple[Flow, FlowParams]]:
        """The flows with their parts of the parameters."""
        own, shared = self._own_ends, self._shared_ends
        return [
            (
                flow,
                FlowParams(params.own[..., own[i] : own[i + 1]], params.shared[shared[i] : shared[i + 1]]),
            )
            for i, flow in enumerate(self._flows)
        ]

    def forward(self, params: FlowParams, z: NDArray) -> Passed:
        """See ``Flow``."""
        log_det = np.zeros(len(z), dtype=z.dtype)
        tapes = []
        for flow, part in self._each(params):
            z, more, tape = flow.forward(part, z)
            log_det = log_det + more
            tapes.append(tape)
        return Passed(z, log_det, tapes)

    def inverse(self, params: FlowParams, z: NDArray) -> tuple[NDArray, NDArray]:
        """See ``Flow``."""
        log_det = np.zeros(len(z))
        for flow, part in reversed(self._each(params)):
            z, more = flow.inverse(part, z)
            log_det = log_det + more
        return z, log_det

    def pullback(
        self, params: FlowParams, tape: list[Any], z_bar: NDArray, log_det_bar: NDArray
    ) -> tuple[NDArray, FlowParams]:
        """See ``Flow``."""
        bars = []
        for (flow, part), entry in reversed(list(zip(self._each(params), tape, strict=True))):
            z_bar, bar = flow.pullback(part, entry, z_bar, log_det_bar)
            bars.append(bar)
        return z_bar, _joined(bars[::-1])

    def carry(self, params: FlowParams, tape: list[Any], gradient: NDArray) -> NDArray:
        """See ``Flow``."""
        for (flow, part), entry in zip(self._each(params), tape, strict=True):
            gradient = flow.carry(part, entry, gradient)
        return gradient


def _joined(parts: list[FlowParams]) -> FlowParams:
    own = np.concatenate([part.own for part in parts], axis=-1)
    return FlowParams(own, np.concatenate([part.shared for part in parts]))
