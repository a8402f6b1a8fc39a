"""Annealed trajectories of a compiled Stan model through ``dais.cpp``; elsewhere through NumPy.

The native kernel saves the loop over transitions in Python, which costs more than a small model's gradients.
The results agree with ``objectives/dais.py`` up to rounding.
"""

from __future__ import annotations

import ctypes
import itertools
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dais_stan.engines.batch import NativeBatch, address_of
from dais_stan.families.gaussian import LOG_2PI
from dais_stan.objectives import dais
from dais_stan.objectives.dais import AnnealedDraws, Annealing, BoundGradient
from dais_stan.objectives.iwelbo import group_weights
from dais_stan.whitening import WhitenedTarget

#: Fresh trajectories are run in blocks whose tapes stay below this size.
MAX_TAPE_BYTES = 32 * 2**20


class Kernel(Protocol):
    """Runs trajectories in the coordinates of one whitened target."""

    def draws(self, path: Annealing, noise: NDArray) -> AnnealedDraws:
        """Where trajectories with this noise (K + 1, N, D) end."""

    def bound_gradient(self, path: Annealing, noise: NDArray, groups: int) -> BoundGradient:
        """See ``objectives.dais.bound_gradient``."""


def annealing_kernel(density: dais.SmoothDensity) -> Kernel:
    """The quickest kernel for this density: native for a compiled target, unless a flow pulled it back."""
    if isinstance(density, WhitenedTarget) and (batch := density.target.native_batch) is not None:
        return NativeKernel(density, batch)
    return NumpyKernel(density)


class NumpyKernel:
    """The readable version, for targets made of functions and machines without a C++ compiler."""

    def __init__(self, density: dais.SmoothDensity) -> None:
        self._density = density

    def draws(self, path: Annealing, noise: NDArray) -> AnnealedDraws:
        """See ``Kernel``."""
        end = dais.forward(self._density, path, noise)
        return AnnealedDraws(end.z, end.log_f, end.log_weight)

    def bound_gradient(self, path: Annealing, noise: NDArray, groups: int) -> BoundGradient:
        """See ``Kernel``."""
        return dais.bound_gradient(self._density, path, noise, groups)


class _Path(ctypes.Structure):
    """``DaisPath`` of ``dais.cpp``."""

    _fields_ = (
        ("transitions", ctypes.c_long),
        ("dense", ctypes.c_long),
        ("mean", ctypes.c_void_p),
        ("factor", ctypes.c_void_p),
        ("steps", ctypes.c_void_p),
        ("betas", ctypes.c_void_p),
        ("retention", ctypes.c_double),
        ("log_constant", ctypes.c_double),
        ("exact_hvp", ctypes.c_long),
    )


class _Run:
    """One call's arguments; holds the arrays whose addresses the structure has."""

    def __init__(self, path: Annealing, exact_hvp: bool) -> None:
        self.arrays = [np.ascontiguousarray(part, dtype=np.float64) for part in path[:4]]
        addresses = [address_of(array) for array in self.arrays]
        constant = path.log_det + 0.5 * len(path.mean) * LOG_2PI
        dense = path.factor.ndim == 2
        self.structure = _Path(len(path.betas), dense, *addresses, path.retention, constant, exact_hvp)
        self.pointer = ctypes.addressof(self.structure)


class NativeKernel:
    """``dais.cpp`` on the target's own coordinates: q0's factor times the whitening's is a factor again."""

    def __init__(self, density: WhitenedTarget, batch: NativeBatch) -> None:
        self._target, self._whitening, self._batch = density.target, density.whitening, batch
        self._buffers: dict[str, NDArray] = {}  # kept from call to call: fresh memory costs page faults

    def draws(self, path: Annealing, noise: NDArray) -> AnnealedDraws:
        """See ``Kernel``."""
        run = self._run(path)
        z, log_f, log_weight = self._forward(run, noise)
        return AnnealedDraws(self._whitening.to_u(z), log_f + self._whitening.log_det, log_weight)

    def bound_gradient(self, path: Annealing, noise: NDArray, groups: int) -> BoundGradient:
        """See ``Kernel``."""
        run = self._run(path)
        _, _, log_weight = self._forward(run, noise)
        bound, weight = group_weights(log_weight.reshape(groups, -1))
        usable = np.isfinite(bound)
        rejected = int(np.count_nonzero(~np.isfinite(log_weight)))
        kept = int(usable.sum())
        gradient = self._backward(run, noise, weight.reshape(-1) / max(kept, 1))
        value = float(bound[usable].mean()) if kept else -np.inf
        return BoundGradient(value, self._unpack(path, gradient), rejected)

    def _run(self, path: Annealing) -> _Run:
        mean, factor = self._whitening.affine(path.mean, path.factor)
        return _Run(path._replace(mean=mean, factor=factor), self._target.has_hvp)

    def _buffer(self, name: str, size: int) -> NDArray:
        if name not in self._buffers or len(self._buffers[name]) < size:
            self._buffers[name] = np.empty(size)
        return self._buffers[name]

    def _forward(self, run: _Run, noise: NDArray) -> tuple[NDArray, NDArray, NDArray]:
        _, particles, dim = noise.shape
        batch, library = self._batch, self._batch.library
        tape = self._buffer("tape", library.dais_tape_size(batch.address, run.pointer, particles))
        z, log_f, log_weight = np.empty((particles, dim)), np.empty(particles), np.empty(particles)
        outputs = (address_of(array) for array in (tape, z, log_f, log_weight))
        failed = library.dais_forward(batch.address, run.pointer, particles, address_of(noise), *outputs)
        self._target.record(gradients=particles * noise.shape[0], outcome=batch.outcome(failed))
        return z, log_f, log_weight

    def _backward(self, run: _Run, noise: NDArray, weight: NDArray) -> NDArray:
        transitions, particles = noise.shape[0] - 1, noise.shape[1]
        batch, library = self._batch, self._batch.library
        size = library.dais_gradient_size(batch.address, run.pointer)
        gradient = np.empty(size)
        arrays = (noise, self._buffers["tape"], weight, self._buffer("parts", particles * size), gradient)
        failed = library.dais_backward(
            batch.address, run.pointer, particles, *(address_of(array) for array in arrays)
        )
        products = transitions * int(np.count_nonzero(weight))
        self._target.record(
            gradients=0 if self._target.has_hvp else products, hvps=products, outcome=batch.outcome(failed)
        )
        return gradient

    def _unpack(self, path: Annealing, flat: NDArray) -> Annealing:
        """The flat gradient in the composed map's parts, pulled back to those of ``path``."""
        dim, (transitions, _) = len(path.mean), path.steps.shape
        scale = self._whitening.scale
        dense = scale.ndim == 2 or path.factor.ndim == 2
        ends = itertools.accumulate((dim, dim * dim if dense else dim, transitions * dim, transitions))
        begin_factor, begin_steps, begin_betas, last = ends
        mean, factor = flat[:begin_factor], flat[begin_factor:begin_steps]
        if dense:
            factor = factor.reshape(dim, dim)
        # Rows of the factor belong to z: each goes back through the whitening as the mean does.
        factor = (scale * factor.T).T if scale.ndim == 1 else scale.T @ factor
        if path.factor.ndim == 1 and dense:
            factor = np.diagonal(factor)
        steps = flat[begin_steps:begin_betas].reshape(transitions, dim)
        mean = self._whitening.gradient_in_u(mean)
        return Annealing(mean, factor, steps, flat[begin_betas:last], float(flat[last]))


def annealed_draws(
    density: dais.SmoothDensity, path: Annealing, count: int, rng: np.random.Generator
) -> AnnealedDraws:
    """Ends of ``count`` fresh trajectories, run in blocks so that their tapes take little memory."""
    kernel = annealing_kernel(density)
    transitions, dim = path.steps.shape
    block = max(1, MAX_TAPE_BYTES // (8 * 6 * transitions * dim))
    ends = []
    for begin in range(0, count, block):
        size = min(block, count - begin)
        ends.append(kernel.draws(path, rng.standard_normal(dais.noise_shape(transitions, size, dim))))
    return AnnealedDraws(*(np.concatenate(parts) for parts in zip(*ends, strict=True)))
