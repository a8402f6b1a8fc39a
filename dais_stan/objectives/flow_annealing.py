"""Annealed importance sampling from a flow: the same trajectories in the flow's base space.

With z = T(u) the target becomes l(T(u)) + log |det T'(u)|, and q0 the flow's Gaussian base. Bridges and
trajectories are those of ``objectives/dais.py`` there, so that steps keep their quality wherever the flow has
straightened the posterior; weights need no other change, since the Jacobian belongs to the density.

The adjoint needs derivatives of the pulled-back gradient along a direction, in u and in the flow's
parameters. They are exact: the target's part is its Hessian-vector product along T'(u) v; the flow's own part
is the imaginary part of its pullback at u + i h v with the target's gradient held (the complex step).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..families import Family, FlowFamily
from ..whitening import WhitenedTarget
from .dais import Annealing, BoundGradient, backward, forward, group_shares

#: The imaginary displacement: its square vanishes beside 1, and nothing is subtracted.
IMAGINARY_STEP = 1e-30


class PulledBack:
    """A smooth density on the base space of the flow of ``family`` at ``params`` (its base plays no part).

    ``params_bar`` collects, while ``hvp`` is called by the trajectories' adjoint, the gradient in the flow's
    parameters that comes through the pulled-back gradients: of sum(v * gradient(u)) for each call.
    """

    def __init__(self, density: WhitenedTarget, family: FlowFamily, params: NDArray) -> None:
        self.dim = density.dim
        self._density, self._flow = density, family.chain
        self._state = family.chain.prepare(family.split(params)[1])
        self.params_bar = np.zeros(family.n_params - family.base.n_params)

    def log_density_gradient(self, u: NDArray) -> tuple[NDArray, NDArray]:
        passed = self._flow.forward(self._state, u)
        value, gradient = self._density.log_density_gradient(passed.z)
        pulled = self._flow.pullback(self._state, passed.tape, gradient, np.ones(len(u)))[0]
        return value + passed.log_det, pulled

    def hvp(self, u: NDArray, v: NDArray, gradient: NDArray | None = None) -> NDArray:
        """Hessian at u times v; ``gradient``, where known, is the one in u, and saves one of the target."""
        flow, state = self._flow, self._state
        passed = flow.forward(state, u)
        if gradient is None:
            outer_gradient = self._density.log_density_gradient(passed.z)[1]
        else:
            outer_gradient = flow.carry(state, passed.tape, gradient)
        tilted = flow.forward(state, u + 1j * IMAGINARY_STEP * v)
        moved = np.ascontiguousarray(tilted.z.imag) / IMAGINARY_STEP
        curved = self._density.hvp(passed.z, moved, outer_gradient)
        own_bar, own_params = flow.pullback(state, tilted.tape, outer_gradient, np.ones(len(u)))
        target_bar, target_params = flow.pullback(state, passed.tape, curved, np.zeros(len(u)))
        own = np.concatenate([part.imag for part in own_params]) / IMAGINARY_STEP
        self.params_bar += own + np.concatenate(target_params)
        return own_bar.imag / IMAGINARY_STEP + target_bar

    def value_pullback(self, u: NDArray, gradient: NDArray, weight: NDArray) -> NDArray:
        """Gradient of sum(weight * value(u)) in the flow's parameters; ``gradient`` is that of value in u."""
        passed = self._flow.forward(self._state, u)
        outer_gradient = self._flow.carry(self._state, passed.tape, gradient)
        z_bar = weight[:, None] * outer_gradient
        bars = self._flow.pullback(self._state, passed.tape, z_bar, weight)[1]
        return np.concatenate(bars)

    def to_target(self, u: NDArray) -> tuple[NDArray, NDArray]:
        """See ``WhitenedTarget.to_target``; the flow's part comes first."""
        passed = self._flow.forward(self._state, u)
        z, log_det = self._density.to_target(passed.z)
        return z, log_det + passed.log_det


def annealable(density: WhitenedTarget, family: Family, params: NDArray) -> WhitenedTarget | PulledBack:
    """The density in the coordinates in which trajectories from this family run."""
    return PulledBack(density, family, params) if isinstance(family, FlowFamily) else density


def flow_bound_gradient(
    pulled: PulledBack, path: Annealing, noise: NDArray, groups: int
) -> tuple[BoundGradient, NDArray]:
    """As ``objectives.dais.bound_gradient``, with the gradient in the flow's parameters beside it."""
    end = forward(pulled, path, noise)
    bound, share = group_shares(end, groups)
    gradient = backward(pulled, path, noise, end, share)
    part = share > 0.0
    flow_bar = pulled.params_bar + pulled.value_pullback(end.z[part], end.end_gradient[part], share[part])
    return BoundGradient(bound, gradient, end.rejected), flow_bar
