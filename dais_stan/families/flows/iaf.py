"""Inverse autoregressive flows (Kingma et al. 2016) through a masked network (MADE, Germain et al. 2015)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .base import FlowParams, Passed, collect

#: |log sigma| stays below: the map is invertible in floating point for any parameters.
MOST_LOG_SCALE = 4.0


class _Weights(NamedTuple):
    """Masked weights: D to C, C to C, C to 2 D (mean, then log scale), with their biases."""

    own: NDArray  # the first bias
    first: NDArray
    second: NDArray
    second_bias: NDArray
    heads: NDArray
    heads_bias: NDArray


class _Tape(NamedTuple):
    z: NDArray  # in the flow's own order
    hidden: tuple[NDArray, NDArray]
    slopes: tuple[NDArray, NDArray]  # of the hidden units
    raw: NDArray  # log scale before its bound, over the bound, as tanh
    scale: NDArray


class IAF:
    """z'_i = mean_i(z_<i) + sigma_i(z_<i) z_i, all i at once; the inverse takes D passes.

    The network has two hidden layers of ``width`` C with tanh (smooth, and bounded whatever the weights).
    Unit c sees the first 1 + c mod (D - 1) coordinates. The bias of the first layer (C,) is the flow's own
    parameter, so that an encoder can set it for each observation; the weights are shared. log sigma is
    bounded by a tanh too. The flow starts as the identity: its heads are zero. With ``reverse`` it takes the
    coordinates in reverse order.
    """

    def __init__(self, dim: int, width: int, reverse: bool = False) -> None:
        if width < 1:
            raise ValueError(f"width must be at least 1, found {width}")
        self.dim = dim
        self._width = width
        self._order = slice(None, None, -1 if reverse else 1)
        degree = 1 + np.arange(width) % max(dim - 1, 1)
        position = np.arange(1, dim + 1)
        heads = position[:, None] > degree
        # Weights are in such units that an optimiser's step moves a unit as far for any width.
        self._masks = (
            (degree[:, None] >= position) / np.sqrt(dim),
            (degree[:, None] >= degree) / np.sqrt(width),
            np.concatenate((heads, heads)) / width,
        )
        sizes = (width * dim, width * width, width, 2 * dim * width, 2 * dim)
        self._ends = np.cumsum(sizes)[:-1]
        self.n_own = width
        self.n_shared = sum(sizes)

    def initial(self, rng: np.random.Generator) -> FlowParams:
        width, dim = self._width, self.dim
        first, second = rng.standard_normal(width * dim), rng.standard_normal(width * width)
        rest = np.zeros(self.n_shared - len(first) - len(second))
        return FlowParams(rng.standard_normal(width), np.concatenate((first, second, rest)))

    def prepare(self, params: FlowParams) -> _Weights:
        """See ``Flow``."""
        first, second, second_bias, heads, heads_bias = np.split(params.shared, self._ends)
        mask = self._masks
        return _Weights(
            params.own,
            first.reshape(self._width, self.dim) * mask[0],
            second.reshape(self._width, self._width) * mask[1],
            second_bias,
            heads.reshape(2 * self.dim, self._width) * mask[2],
            heads_bias,
        )

    def _run(self, weights: _Weights, z: NDArray) -> tuple[NDArray, _Tape]:
        """The means (N, D) and the tape with the scales, for z in the flow's own order."""
        first = np.tanh(z @ weights.first.T + weights.own)
        second = np.tanh(first @ weights.second.T + weights.second_bias)
        heads = second @ weights.heads.T + weights.heads_bias
        raw = np.tanh(heads[:, self.dim :] / MOST_LOG_SCALE)
        scale = np.exp(MOST_LOG_SCALE * raw)
        tape = _Tape(z, (first, second), (1.0 - first * first, 1.0 - second * second), raw, scale)
        return heads[:, : self.dim], tape

    def forward(self, weights: _Weights, z: NDArray) -> Passed:
        """See ``Flow``."""
        ordered = z[:, self._order]
        mean, tape = self._run(weights, ordered)
        moved = mean + tape.scale * ordered
        return Passed(moved[:, self._order], MOST_LOG_SCALE * tape.raw.sum(axis=1), tape)

    def inverse(self, weights: _Weights, z: NDArray) -> tuple[NDArray, NDArray]:
        """See ``Flow``. Each pass settles one more coordinate."""
        image = z[:, self._order]
        found = np.zeros_like(image)
        for i in range(self.dim):
            mean, tape = self._run(weights, found)
            found[:, i] = (image[:, i] - mean[:, i]) / tape.scale[:, i]
        # Scales depend on earlier coordinates only, so that the last pass has them all.
        return found[:, self._order], -MOST_LOG_SCALE * tape.raw.sum(axis=1)

    def pullback(
        self, weights: _Weights, tape: _Tape, z_bar: NDArray, log_det_bar: NDArray
    ) -> tuple[NDArray, FlowParams]:
        """See ``Flow``."""
        bar = z_bar[:, self._order]
        log_scale_bar = bar * tape.scale * tape.z + log_det_bar[:, None]
        heads_bar = np.concatenate((bar, log_scale_bar * (1.0 - tape.raw**2)), axis=1)
        through, own_bar, shared_bar = self._network_pullback(weights, tape, heads_bar)
        points_bar = (through + bar * tape.scale)[:, self._order]
        return points_bar, FlowParams(collect(own_bar, weights.own.ndim == 2), shared_bar)

    def _network_pullback(
        self, weights: _Weights, tape: _Tape, heads_bar: NDArray
    ) -> tuple[NDArray, NDArray, NDArray]:
        """Gradients in the network's input, its first bias (a row for each point), and the shared weights."""
        (first, second), mask = tape.hidden, self._masks
        second_bar = (heads_bar @ weights.heads) * tape.slopes[1]
        first_bar = (second_bar @ weights.second) * tape.slopes[0]
        shared_bar = (
            (first_bar.T @ tape.z) * mask[0],
            (second_bar.T @ first) * mask[1],
            second_bar.sum(axis=0),
            (heads_bar.T @ second) * mask[2],
            heads_bar.sum(axis=0),
        )
        return first_bar @ weights.first, first_bar, np.concatenate([part.ravel() for part in shared_bar])

    def carry(self, weights: _Weights, tape: _Tape, gradient: NDArray) -> NDArray:
        """See ``Flow``. The Jacobian (N, D, D) is formed, and solved from the last coordinate upward."""
        dim = self.dim
        slope = 1.0 - tape.raw**2
        log_det_bar = np.concatenate((np.zeros_like(slope), slope), axis=1)
        rest = gradient[:, self._order] - self._network_pullback(weights, tape, log_det_bar)[0]
        through = (weights.heads * tape.slopes[1][:, None]) @ weights.second * tape.slopes[0][:, None]
        heads = through @ weights.first  # (N, 2 D, D)
        jacobian = heads[:, :dim] + (tape.scale * tape.z * slope)[:, :, None] * heads[:, dim:]
        x = np.empty_like(rest)
        for i in range(dim - 1, -1, -1):
            later = slice(i + 1, None)
            known = (jacobian[:, later, i] * x[:, later]).sum(axis=1)
            x[:, i] = (rest[:, i] - known) / tape.scale[:, i]
        return x[:, self._order]
