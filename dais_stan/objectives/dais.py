"""Differentiable annealed importance sampling: trajectories from q0 to the posterior, and their gradient.

Zenn & Bamler (2024) after Zhang et al. (2021): K uncorrected leapfrog transitions, each with one gradient
of the target, along the bridge q0^(1 - beta) f^beta. Positions are x with z = mean + factor x, so that q0 is
the standard normal and its force is -x; momenta are those of a standard normal. In the paper's terms,
with step sizes delta and masses m on z, the step of coordinate j is delta / (sqrt(m_j) s_j): the samples and
weights are the same.

The gradient is reverse mode by hand; the target enters it through Hessian-vector products only.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ..families.gaussian import LOG_2PI
from .elbo import Density
from .iwelbo import group_weights


class SmoothDensity(Density, Protocol):
    """A density with Hessian-vector products on batches: a Target, or one in whitened coordinates."""

    def hvp(self, z: NDArray, v: NDArray, gradient: NDArray | None = None) -> NDArray: ...


class Annealing(NamedTuple):
    """All that a trajectory depends on but its noise; also the shape of a gradient in these.

    ``mean`` (D,) and ``factor``, (D,) or lower (D, D), are q0's. ``steps`` (K, D) are step sizes in units of
    q0's scale. ``betas`` (K,) rise to 1. ``retention`` is the share of the momentum kept between transitions.
    """

    mean: NDArray
    factor: NDArray
    steps: NDArray
    betas: NDArray
    retention: float

    def to_z(self, x: NDArray) -> NDArray:
        """Points x (N, D) of q0's standard coordinates in those of the density."""
        return self.mean + self.direction(x)

    def direction(self, x: NDArray) -> NDArray:
        """factor x: a displacement x (N, D) in the density's coordinates."""
        return x * self.factor if self.factor.ndim == 1 else x @ self.factor.T

    def pull(self, gradient: NDArray) -> NDArray:
        """factor^T gradient: a gradient (N, D) in x."""
        return gradient * self.factor if self.factor.ndim == 1 else gradient @ self.factor

    def outer(self, z_bar: NDArray, x: NDArray) -> NDArray:
        """Gradient in the factor of sum(z_bar * direction(x))."""
        return (z_bar * x).sum(axis=0) if self.factor.ndim == 1 else z_bar.T @ x

    @property
    def log_det(self) -> float:
        diagonal = self.factor if self.factor.ndim == 1 else np.diagonal(self.factor)
        return float(np.log(diagonal).sum())


class _Transition(NamedTuple):
    """The tape of one transition, each (N, D)."""

    before: NDArray  # momentum
    middle: NDArray  # position, half a step on
    gradient: NDArray  # of log f there, in z
    force: NDArray  # of the bridge there, in x
    kicked: NDArray  # momentum after the kick


class Trajectories(NamedTuple):
    """Where N particles ended: positions z (N, D), log f (N,) there, log weights (N,), and the tape.

    A log weight is -inf where the density at the end is not finite or the trajectory overflowed.
    """

    z: NDArray
    log_f: NDArray
    log_weight: NDArray
    x: NDArray
    end_gradient: NDArray
    tape: list[_Transition]

    @property
    def rejected(self) -> int:
        """How many particles have no weight."""
        return int(np.count_nonzero(~np.isfinite(self.log_weight)))


def noise_shape(transitions: int, particles: int, dim: int) -> tuple[int, int, int]:
    """Shape of the noise of N trajectories: the start, then a momentum for each transition."""
    return (transitions + 1, particles, dim)


def forward(density: Density, path: Annealing, noise: NDArray) -> Trajectories:
    """Run N trajectories; ``noise`` (K + 1, N, D) is standard normal.

    The mean of exp(log_weight) is an unbiased estimate of the evidence whatever ``path`` is. Where the
    target's gradient is not finite on the way, it counts as zero: any force keeps the estimate unbiased.
    """
    x, momentum = noise[0], noise[1]
    refresh = np.sqrt(1.0 - path.retention**2)
    log_weight = 0.5 * (x * x).sum(axis=1) + (path.log_det + 0.5 * x.shape[1] * LOG_2PI)
    tape: list[_Transition] = []
    with np.errstate(over="ignore", invalid="ignore"):
        for k, (step, beta) in enumerate(zip(path.steps, path.betas, strict=True)):
            if k:
                momentum = path.retention * tape[-1].kicked + refresh * noise[k + 1]
            middle = x + 0.5 * step * momentum
            gradient = density.log_density_gradient(path.to_z(middle))[1]
            force = beta * path.pull(gradient) - (1.0 - beta) * middle
            kicked = momentum + step * force
            x = middle + 0.5 * step * kicked
            log_weight += 0.5 * (momentum * momentum - kicked * kicked).sum(axis=1)
            tape.append(_Transition(momentum, middle, gradient, force, kicked))
        z = path.to_z(x)
        value, end_gradient = density.log_density_gradient(z)
        log_weight += value
    log_weight[~np.isfinite(log_weight)] = -np.inf
    return Trajectories(z, value, log_weight, x, end_gradient, tape)


class AnnealedDraws(NamedTuple):
    """Ends of trajectories: z (N, D), log f (N,) and log weights (N,)."""

    z: NDArray
    log_f: NDArray
    log_weight: NDArray


def backward(
    density: SmoothDensity, path: Annealing, noise: NDArray, end: Trajectories, weight: NDArray
) -> Annealing:
    """Gradient of sum(weight * log_weight) in every part of ``path``, at fixed noise and weights (N,).

    A particle of weight zero takes no part, so that what overflowed in it does no harm.
    """
    part = weight > 0.0
    if not part.any():
        mean, factor, steps, betas = (np.zeros_like(each) for each in path[:4])
        return Annealing(mean, factor, steps, betas, 0.0)
    noise, weight = noise[:, part], weight[part, None]
    z_bar = weight * end.end_gradient[part]
    x_bar = path.pull(z_bar)
    momentum_bar = np.zeros_like(x_bar)
    mean_bar, factor_bar = z_bar.sum(axis=0), path.outer(z_bar, end.x[part])
    steps_bar, betas_bar, retention_bar = np.empty_like(path.steps), np.empty_like(path.betas), 0.0
    fresh_share = path.retention / np.sqrt(1.0 - path.retention**2)
    last = len(end.tape) - 1
    for k in range(last, -1, -1):
        before, middle, gradient, force, kicked = (entry[part] for entry in end.tape[k])
        step, beta = path.steps[k], path.betas[k]
        kicked_bar = 0.5 * step * x_bar - weight * kicked
        if k < last:
            retention_bar += float((momentum_bar * (kicked - fresh_share * noise[k + 2])).sum())
            kicked_bar += path.retention * momentum_bar
        force_bar = step * kicked_bar
        betas_bar[k] = (force_bar * (path.pull(gradient) + middle)).sum()
        gradient_bar = path.direction(beta * force_bar)
        curved = density.hvp(path.to_z(middle), gradient_bar, gradient)
        middle_bar = x_bar + path.pull(curved) - (1.0 - beta) * force_bar
        mean_bar += curved.sum(axis=0)
        factor_bar += path.outer(curved, middle) + path.outer(gradient, beta * force_bar)
        steps_bar[k] = (0.5 * (x_bar * kicked + middle_bar * before) + kicked_bar * force).sum(axis=0)
        momentum_bar = kicked_bar + 0.5 * step * middle_bar + weight * before
        x_bar = middle_bar
    return Annealing(mean_bar, factor_bar + _log_det_bar(path, weight), steps_bar, betas_bar, retention_bar)


def _log_det_bar(path: Annealing, weight: NDArray) -> NDArray:
    """Gradient in the factor of sum(weight) log |det factor|."""
    total = float(weight.sum())
    return total / path.factor if path.factor.ndim == 1 else np.diag(total / np.diagonal(path.factor))


class BoundGradient(NamedTuple):
    """The bound of B groups of particles, its gradient, and the number of particles without weight."""

    bound: float
    gradient: Annealing
    rejected: int


def bound_gradient(density: SmoothDensity, path: Annealing, noise: NDArray, groups: int) -> BoundGradient:
    """Mean over groups of log(mean weight) and its gradient (Zenn & Bamler 2024, equations 13 to 15).

    ``noise`` (K + 1, B N, D) holds the groups one after another. A group without any weight is left out of
    the mean; with no group left the bound is -inf and the gradient zero.
    """
    end = forward(density, path, noise)
    bound, share = group_shares(end, groups)
    return BoundGradient(bound, backward(density, path, noise, end, share), end.rejected)


def group_shares(end: Trajectories, groups: int) -> tuple[float, NDArray]:
    """Mean of the groups' bounds, and each particle's share (B N,) in its gradient."""
    bound, weight = group_weights(end.log_weight.reshape(groups, -1))
    usable = np.isfinite(bound)
    if not usable.any():
        return -np.inf, weight.reshape(-1)
    return float(bound[usable].mean()), weight.reshape(-1) / usable.sum()
