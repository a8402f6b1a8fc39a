"""The evidence lower bound of all observations, from one batch at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..families.flows import Chain, FlowParams
from ..families.gaussian import LOG_2PI
from ..objectives.elbo import Estimate
from .batches import Batch, Batches
from .encoder import Encoder

#: Log standard deviation at which a shared parameter's Gaussian starts.
START_LOG_SD = -3.0


class Encoded(NamedTuple):
    """Draws of q(z | x), one for each row: z (B, L), log q (B,), and the tape."""

    z: NDArray
    log_q: NDArray
    tape: Any


class Posterior:
    """q(z | x): a Gaussian whose mean and log sd the encoder gives, moved by flows whose parameters it gives.

    Without ``flows`` it is the Gaussian. Parameters: the encoder's, then the weights that flows share.
    """

    def __init__(self, inputs: int, dim: int, widths: Sequence[int], flows: Chain | None) -> None:
        own = flows.n_own if flows else 0
        self.dim = dim
        self.flows = flows
        self._encoder = Encoder(inputs, widths, (dim, dim, own))
        self.n_params = self._encoder.n_params + (flows.n_shared if flows else 0)

    def initial(self, rng: np.random.Generator) -> NDArray:
        """Every q near the standard normal."""
        start = self.flows.initial(rng) if self.flows else FlowParams(np.empty(0), np.empty(0))
        biases = (np.zeros(self.dim), np.zeros(self.dim), start.own)
        return np.concatenate((self._encoder.initial(rng, biases), start.shared))

    def parts(self, params: NDArray, x: NDArray) -> tuple[list[NDArray], FlowParams, list]:
        """Means and log standard deviations (B, L), the flows' parameters, and the encoder's tape."""
        weights, shared = np.split(params, [self._encoder.n_params])
        (mean, log_sd, own), tape = self._encoder.forward(weights, x)
        return [mean, log_sd], FlowParams(own, shared), tape

    def sample(self, params: NDArray, x: NDArray, eps: NDArray) -> Encoded:
        """A draw for each row of x (B, I) from noise (B, L)."""
        gaussian, flow, tape = self.parts(params, x)
        state = self.flows.prepare(flow) if self.flows else None
        z, log_q, moved, passed = self._moved(gaussian, state, eps)
        return Encoded(z, log_q, (tape, moved, state, passed))

    def draws(self, params: NDArray, x: NDArray, eps: NDArray) -> tuple[NDArray, NDArray]:
        """As ``sample`` for noise (S, B, L), S draws for each row: z (S, B, L) and log q (S, B)."""
        gaussian, flow, _ = self.parts(params, x)
        state = self.flows.prepare(flow) if self.flows else None
        z, log_q = zip(*(self._moved(gaussian, state, each)[:2] for each in eps), strict=True)
        return np.array(z), np.array(log_q)

    def _moved(
        self, gaussian: list[NDArray], state: Any, eps: NDArray
    ) -> tuple[NDArray, NDArray, NDArray, Any]:
        """z (B, L) and log q (B,) of noise (B, L), the noise scaled, and the flows' tape or None."""
        mean, log_sd = gaussian
        moved = np.exp(log_sd) * eps
        log_q = -0.5 * ((eps * eps).sum(axis=1) + self.dim * LOG_2PI) - log_sd.sum(axis=1)
        if self.flows is None:
            return mean + moved, log_q, moved, None
        z, log_det, tape = self.flows.forward(state, mean + moved)
        return z, log_q - log_det, moved, tape

    def pullback(self, params: NDArray, tape: Any, z_bar: NDArray, log_q_bar: NDArray) -> NDArray:
        """Gradient of sum(z_bar * z) + sum(log_q_bar * log_q) in the parameters."""
        encoder_tape, moved, state, flow_tape = tape
        bar = FlowParams(np.empty((len(z_bar), 0)), np.empty(0))
        if self.flows is not None:
            z_bar, bar = self.flows.pullback(state, flow_tape, z_bar, -log_q_bar)
        log_sd_bar = z_bar * moved - log_q_bar[:, None]
        weights = params[: self._encoder.n_params]
        encoder_bar = self._encoder.pullback(weights, encoder_tape, (z_bar, log_sd_bar, bar.own))
        return np.concatenate((encoder_bar, bar.shared))


class AmortizedElbo:
    """The bound per observation at a random batch; parameters are q's, then the shared parameters'.

    With N observations, a batch of B with density l_B and the shared parameters' own l_0, the sum
    l_0 + (N / B) (l_B - l_0) is unbiased for the density of all. Shared parameters are a point, or with
    ``gaussian`` a mean and a log standard deviation each. While the KL is annealed, over ``annealing`` steps,
    (1 - weight) KL(q(z | x) || N(0, I)) is given back: for a standard normal prior that is the weight on the
    KL of van den Berg et al. (2018), for any other a start that fades. ``memory`` counts the steps.
    """

    def __init__(self, batches: Batches, posterior: Posterior, gaussian: bool, annealing: int) -> None:
        self.memory = np.zeros(1)
        self._batches, self._posterior = batches, posterior
        self._gaussian, self._annealing = gaussian, annealing
        self._shared = len(batches.each[0].shared)
        self.n_params = posterior.n_params + self._shared * (1 + gaussian)

    def initial(self, rng: np.random.Generator, shared: NDArray) -> NDArray:
        """A start with the shared parameters at these values (S,)."""
        scales = np.full(self._shared * self._gaussian, START_LOG_SD)
        return np.concatenate((self._posterior.initial(rng), shared, scales))

    def split(self, params: NDArray) -> tuple[NDArray, NDArray, NDArray]:
        """q's parameters, the shared parameters' values or means, and their log standard deviations."""
        first = self._posterior.n_params
        q, shared, log_sd = np.split(params, [first, first + self._shared])
        return q, shared, log_sd

    def __call__(self, params: NDArray, rng: np.random.Generator) -> Estimate:
        each = self._batches.each
        sizes = np.array([len(batch.inputs) for batch in each])
        batch = each[rng.choice(len(each), p=sizes / sizes.sum())]
        weight = min(1.0, self.memory[0] / self._annealing) if self._annealing else 1.0
        self.memory += 1
        noise = rng.standard_normal(self._shared) if self._gaussian else None
        return self.at(params, batch, rng.standard_normal(batch.local.shape), noise, weight)

    def at(
        self, params: NDArray, batch: Batch, eps: NDArray, shared_noise: NDArray | None, weight: float = 1.0
    ) -> Estimate:
        """The bound per observation at one batch with this noise, and its gradient.

        ``shared_noise`` None takes the shared parameters at their values or means.
        """
        q, shared, log_sd = self.split(params)
        moved = np.zeros(self._shared) if shared_noise is None else np.exp(log_sd) * shared_noise
        sample = self._posterior.sample(q, batch.inputs, eps)
        point = np.empty(batch.target.dim)
        point[batch.local], point[batch.shared] = sample.z, shared + moved
        value, gradient = batch.target.log_density_gradient(point)
        prior, prior_gradient = self._prior(point[batch.shared])
        if not np.isfinite(value) or not np.isfinite(prior):
            return Estimate(-np.inf, np.zeros_like(params), len(eps))
        size, count = len(eps), self._batches.count
        bound = (value - prior) / size + prior / count - weight * sample.log_q.mean()
        log_normal = -0.5 * ((sample.z**2).sum(axis=1) + sample.z.shape[1] * LOG_2PI)
        bound -= (1.0 - weight) * log_normal.mean()
        z_bar = (gradient[batch.local] + (1.0 - weight) * sample.z) / size
        q_bar = self._posterior.pullback(q, sample.tape, z_bar, np.full(size, -weight / size))
        shared_bar = (gradient[batch.shared] - prior_gradient) / size + prior_gradient / count
        log_sd_bar = np.empty(0)
        if self._gaussian:
            bound += (log_sd.sum() + 0.5 * self._shared * (1.0 + LOG_2PI)) / count
            log_sd_bar = shared_bar * moved + 1.0 / count
        return Estimate(float(bound), np.concatenate((q_bar, shared_bar, log_sd_bar)), 0)

    def _prior(self, shared: NDArray) -> tuple[float, NDArray]:
        if self._batches.prior is None:
            return 0.0, np.zeros(self._shared)
        return self._batches.prior.log_density_gradient(shared)
