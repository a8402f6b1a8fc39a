"""Gaussian components q(x; theta), one for each draw of theta, and the mixture of them in equal parts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

LOG_2PI = float(np.log(2.0 * np.pi))
#: Pairs of a point and a component whose log densities are taken at once; keeps memory flat.
_PAIRS = 2**18


@dataclass(frozen=True)
class Components:
    """T Gaussians N(location, scale scale^T) in D dimensions.

    ``location`` is (T, D); ``scale`` holds standard deviations (T, D), or lower-triangular factors (T, D, D).
    """

    location: NDArray
    scale: NDArray

    def __len__(self) -> int:
        return len(self.location)

    def take(self, index: NDArray | slice) -> Components:
        """Those of an index, slice or mask."""
        return Components(self.location[index], self.scale[index])

    @property
    def dim(self) -> int:
        return self.location.shape[1]

    @property
    def diagonal(self) -> bool:
        """Whether the covariances are diagonal."""
        return self.scale.ndim == 2

    @cached_property
    def log_det(self) -> NDArray:
        """log |scale|, (T,)."""
        diagonal = self.scale if self.diagonal else np.diagonal(self.scale, axis1=1, axis2=2)
        return np.log(diagonal).sum(axis=1)

    @property
    def variances(self) -> NDArray:
        """Variance of each coordinate of each component, (T, D)."""
        return self.scale**2 if self.diagonal else np.einsum("tij,tij->ti", self.scale, self.scale)

    def variance_along(self, waves: NDArray) -> NDArray:
        """Variance of wave . x for each component: waves (W, D) to (T, W)."""
        if self.diagonal:
            return self.scale**2 @ (waves**2).T
        projected = np.einsum("wi,tij->twj", waves, self.scale)
        return np.einsum("twj,twj->tw", projected, projected)

    @property
    def entropy(self) -> NDArray:
        """Differential entropy of each component in nats, (T,)."""
        return 0.5 * self.dim * (1.0 + LOG_2PI) + self.log_det

    def place(self, nodes: NDArray) -> NDArray:
        """location + scale node for each component and node: nodes (M, D) or (T, M, D) to (T, M, D)."""
        if self.diagonal:
            return self.location[:, None] + self.scale[:, None] * nodes
        return self.location[:, None] + nodes @ self.scale.swapaxes(1, 2)

    def one_of_each(self, rng: np.random.Generator) -> NDArray:
        """A draw of every component, (T, D)."""
        return self.place(rng.standard_normal((len(self), 1, self.dim)))[:, 0]

    def sample(self, n: int, rng: np.random.Generator) -> NDArray:
        """Draws of the mixture (n, D), from components chosen at random."""
        return self.take(rng.integers(len(self), size=n)).one_of_each(rng)

    def log_each(self, x: NDArray) -> NDArray:
        """Log density of every component at every point: x (N, D) to (N, T). See ``log_prob`` for many."""
        centred = x[:, None] - self.location
        white = centred / self.scale if self.diagonal else np.einsum("tij,ntj->nti", self._inverse, centred)
        return -0.5 * (np.einsum("ntd,ntd->nt", white, white) + self.dim * LOG_2PI) - self.log_det

    def log_own(self, x: NDArray) -> NDArray:
        """Log density of each component at a point of its own: x (T, D) to (T,)."""
        centred = x - self.location
        white = centred / self.scale if self.diagonal else np.einsum("tij,tj->ti", self._inverse, centred)
        return -0.5 * (np.einsum("td,td->t", white, white) + self.dim * LOG_2PI) - self.log_det

    @cached_property
    def _inverse(self) -> NDArray:
        return np.linalg.inv(self.scale)

    def log_prob(self, x: NDArray) -> NDArray:
        """Log density of the mixture at x, (N, D) to (N,)."""
        return np.concatenate([logsumexp(part, axis=1) for part in self._parts(x)]) - np.log(len(self))

    def log_prob_with_and_without_own(self, x: NDArray) -> tuple[NDArray, NDArray]:
        """At a draw of each component, the log density of the mixture, and of that of the other components.

        x (T, D) to (T,) and (T,).
        """
        every, others, row = np.empty(len(x)), np.empty(len(x)), 0
        for part in self._parts(x):
            rows = np.arange(row, row + len(part))
            every[rows] = logsumexp(part, axis=1)
            part[np.arange(len(part)), rows] = -np.inf
            others[rows] = logsumexp(part, axis=1)
            row += len(part)
        return every - np.log(len(self)), others - np.log(len(self) - 1)

    def _parts(self, x: NDArray) -> Iterator[NDArray]:
        """``log_each`` of a few rows at a time."""
        rows = max(1, _PAIRS // len(self))
        return (self.log_each(x[i : i + rows]) for i in range(0, len(x), rows))

    def moments(self) -> tuple[NDArray, NDArray]:
        """Mean (D,) and covariance (D, D) of the mixture."""
        mean = self.location.mean(axis=0)
        centred = self.location - mean
        within = (
            np.diag((self.scale**2).mean(axis=0))
            if self.diagonal
            else np.einsum("tij,tkj->ik", self.scale, self.scale) / len(self)
        )
        return mean, centred.T @ centred / len(self) + within
