"""The encoder: gated dense layers and linear heads, with pullbacks by hand."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit


class Linear:
    """y = W x + b for each row of x; parameters are W by rows, then b."""

    def __init__(self, inputs: int, outputs: int) -> None:
        self.shape = (outputs, inputs)
        self.n_params = outputs * inputs + outputs

    def initial(self, rng: np.random.Generator, scale: float = 1.0) -> NDArray:
        """W with variance ``scale``^2 / inputs, b zero."""
        outputs, inputs = self.shape
        weights = rng.standard_normal(outputs * inputs) * (scale / np.sqrt(inputs))
        return np.concatenate((weights, np.zeros(outputs)))

    def forward(self, params: NDArray, x: NDArray) -> NDArray:
        """(N, inputs) to (N, outputs)."""
        size = self.shape[0] * self.shape[1]
        return x @ params[:size].reshape(self.shape).T + params[size:]

    def pullback(self, params: NDArray, x: NDArray, y_bar: NDArray) -> tuple[NDArray, NDArray]:
        """Gradients of sum(y_bar * y) in x and in the parameters."""
        size = self.shape[0] * self.shape[1]
        params_bar = np.concatenate(((y_bar.T @ x).ravel(), y_bar.sum(axis=0)))
        return y_bar @ params[:size].reshape(self.shape), params_bar


class Gated:
    """y = (W x + b) * sigmoid(V x + c) (van den Berg et al. 2018, appendix; Dauphin et al. 2017)."""

    def __init__(self, inputs: int, outputs: int) -> None:
        self._both = Linear(inputs, 2 * outputs)
        self._outputs = outputs
        self.n_params = self._both.n_params

    def initial(self, rng: np.random.Generator) -> NDArray:
        return self._both.initial(rng)

    def forward(self, params: NDArray, x: NDArray) -> tuple[NDArray, tuple[NDArray, NDArray, NDArray]]:
        """(N, inputs) to (N, outputs), with the tape."""
        both = self._both.forward(params, x)
        linear, gate = both[:, : self._outputs], expit(both[:, self._outputs :])
        return linear * gate, (x, linear, gate)

    def pullback(
        self, params: NDArray, tape: tuple[NDArray, NDArray, NDArray], y_bar: NDArray
    ) -> tuple[NDArray, NDArray]:
        """Gradients in x and in the parameters."""
        x, linear, gate = tape
        both_bar = np.concatenate((y_bar * gate, y_bar * linear * gate * (1.0 - gate)), axis=1)
        return self._both.pullback(params, x, both_bar)


class Encoder:
    """Gated layers of these ``widths``, then one linear head for each of ``heads``.

    The heads are the outputs' sizes; each starts near its ``biases``, the same for every input.
    """

    def __init__(self, inputs: int, widths: Sequence[int], heads: Sequence[int]) -> None:
        sizes = [inputs, *widths]
        self._layers = [Gated(a, b) for a, b in pairwise(sizes)]
        self._heads = Linear(sizes[-1], sum(heads))
        self._head_ends = np.cumsum(heads)[:-1]
        self._ends = np.cumsum([layer.n_params for layer in self._layers])
        self.n_params = int(self._ends[-1]) + self._heads.n_params

    def initial(self, rng: np.random.Generator, biases: Sequence[NDArray]) -> NDArray:
        """A start at which the outputs are ``biases``, up to a hundredth."""
        heads = self._heads.initial(rng, scale=0.01)
        heads[-len(np.concatenate(biases)) :] = np.concatenate(biases)
        return np.concatenate((*(layer.initial(rng) for layer in self._layers), heads))

    def forward(self, params: NDArray, x: NDArray) -> tuple[list[NDArray], list]:
        """One output (N, size) for each head, and the tape."""
        *parts, heads = np.split(params, self._ends)
        tape = []
        for layer, part in zip(self._layers, parts, strict=True):
            x, entry = layer.forward(part, x)
            tape.append(entry)
        return np.split(self._heads.forward(heads, x), self._head_ends, axis=1), [*tape, x]

    def pullback(self, params: NDArray, tape: list, heads_bar: Sequence[NDArray]) -> NDArray:
        """Gradient in the parameters from those in the heads."""
        *parts, heads = np.split(params, self._ends)
        x_bar, bar = self._heads.pullback(heads, tape[-1], np.concatenate(heads_bar, axis=1))
        bars = [bar]
        for layer, part, entry in zip(self._layers[::-1], parts[::-1], tape[-2::-1], strict=True):
            x_bar, bar = layer.pullback(part, entry, x_bar)
            bars.append(bar)
        return np.concatenate(bars[::-1])
