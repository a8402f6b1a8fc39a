"""Densities with gradient and Hessian-vector product in NumPy, for tests of the objectives' maths."""

from __future__ import annotations

import numpy as np


class _ByGradient:
    def log_density(self, z):
        return self.log_density_gradient(z)[0]


class Skewed(_ByGradient):
    """log f(z) = sum_i (k_i x_i - exp(x_i)) with x = A z: correlated log-gamma coordinates.

    There is no density where the first coordinate is below ``wall``.
    """

    dim = 3

    def __init__(self, wall: float = -np.inf) -> None:
        self.mix = np.array([[1.0, 0.4, 0.0], [0.0, 0.8, -0.5], [0.3, 0.0, 1.2]])
        self.shape = np.array([1.5, 3.0, 6.0])
        self.wall = wall

    def log_density_gradient(self, z):
        x = z @ self.mix.T
        value = (self.shape * x - np.exp(x)).sum(axis=1)
        gradient = (self.shape - np.exp(x)) @ self.mix
        outside = z[:, 0] < self.wall
        return np.where(outside, -np.inf, value), np.where(outside[:, None], 0.0, gradient)

    def hvp(self, z, v, gradient=None):
        product = -(np.exp(z @ self.mix.T) * (v @ self.mix.T)) @ self.mix
        return np.where((z[:, 0] < self.wall)[:, None], 0.0, product)


class Normal(_ByGradient):
    """log f = log Z + log N(z; mean, covariance)."""

    def __init__(self, mean, covariance, log_z: float = 0.0) -> None:
        self.mean, self.covariance = np.asarray(mean, float), np.asarray(covariance, float)
        self.precision = np.linalg.inv(self.covariance)
        self.log_z = log_z
        self.constant = log_z - 0.5 * np.linalg.slogdet(2 * np.pi * self.covariance)[1]
        self.dim = len(self.mean)

    def log_density_gradient(self, z):
        gradient = -(z - self.mean) @ self.precision
        return self.constant + 0.5 * ((z - self.mean) * gradient).sum(axis=1), gradient

    def hvp(self, z, v, gradient=None):
        return -v @ self.precision


def central_difference(function, x, step=1e-6):
    """Derivative of ``function`` in each entry of the vector ``x``."""
    return np.array([(function(x + h) - function(x - h)) / (2 * step) for h in step * np.eye(len(x))])
