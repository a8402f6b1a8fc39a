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
        own, shared = (
            np.cumsum(sizes) for sizes in zip(*((f.n_own, f.n_shared) for f in flows), strict=True)
        )
        self._own_ends, self._shared_ends = own[:-1], shared[:-1]
        self.n_own, self.n_shared = int(own[-1]), int(shared[-1])

    def initial(self, rng: np.random.Generator) -> FlowParams:
        return _joined([flow.initial(rng) for flow in self._flows])

    def prepare(self, params: FlowParams) -> list[Any]:
        """See ``Flow``."""
        own = np.split(params.own, self._own_ends, axis=-1)
        shared = np.split(params.shared, self._shared_ends)
        parts = zip(self._flows, own, shared, strict=True)
        return [flow.prepare(FlowParams(*part)) for flow, *part in parts]

    def forward(self, state: list[Any], z: NDArray) -> Passed:
        """See ``Flow``."""
        log_det = np.zeros(len(z), dtype=z.dtype)
        tapes = []
        for flow, part in zip(self._flows, state, strict=True):
            z, more, tape = flow.forward(part, z)
            log_det += more
            tapes.append(tape)
        return Passed(z, log_det, tapes)

    def inverse(self, state: list[Any], z: NDArray) -> tuple[NDArray, NDArray]:
        """See ``Flow``."""
        log_det = np.zeros(len(z))
        for flow, part in zip(self._flows[::-1], state[::-1], strict=True):
            z, more = flow.inverse(part, z)
            log_det += more
        return z, log_det

    def pullback(
        self, state: list[Any], tape: list[Any], z_bar: NDArray, log_det_bar: NDArray
    ) -> tuple[NDArray, FlowParams]:
        """See ``Flow``."""
        bars = []
        for flow, part, entry in zip(self._flows[::-1], state[::-1], tape[::-1], strict=True):
            z_bar, bar = flow.pullback(part, entry, z_bar, log_det_bar)
            bars.append(bar)
        return z_bar, _joined(bars[::-1])

    def carry(self, state: list[Any], tape: list[Any], gradient: NDArray) -> NDArray:
        """See ``Flow``."""
        for flow, part, entry in zip(self._flows, state, tape, strict=True):
            gradient = flow.carry(part, entry, gradient)
        return gradient


def _joined(parts: list[FlowParams]) -> FlowParams:
    own = np.concatenate([part.own for part in parts], axis=-1)
    return FlowParams(own, np.concatenate([part.shared for part in parts]))
