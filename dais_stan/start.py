"""Where an optimisation starts: whitened coordinates from the posterior mode and its curvature.

CmdStan's ADVI starts from a random point with unit scales and misses plain regressions whose parameters
differ in scale by 1e4. Here the optimiser never sees those scales: z = centre + scale u, with u near a
standard normal. Where there is no mode (a centred hierarchical model has none) or its curvature misleads, the
Gaussian of best ELBO among those along the search path serves, an idea of Pathfinder (Zhang et al. 2022).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize

from .errors import TargetError
from .families.gaussian import LOG_2PI
from .target import Target
from .whitening import WhitenedTarget, Whitening

logger = logging.getLogger("dais_stan")

#: Up to this dimension the full curvature is found (2 D gradients), above it only its diagonal.
MAX_DENSE_DIM = 500
#: Smallest and largest standard deviation that a flat or negative curvature may claim, in scaled units.
MAX_SCALED_SD = 10.0
#: Random points from which ``find_modes`` ascends beside the usual one: a mode that draws a third of them is
#: missed in 4 % of runs.
RANDOM_ASCENTS = 8
#: A mode counts as found when the Newton decrement is this small: the mean is off by 0.01 sd.
MODE_TOLERANCE = 1e-4


@dataclass(frozen=True)
class Start:
    """A coordinate system for the optimiser and one sentence on how it was found."""

    whitening: Whitening
    kind: str
    note: str


@dataclass(frozen=True)
class _Curvature:
    """A Gaussian at a point: scale (D,) or lower factor (D, D); whether -Hessian was positive definite."""

    point: NDArray
    scale: NDArray
    positive: bool
    decrement: float

    @property
    def is_mode(self) -> bool:
        return self.positive and self.decrement < MODE_TOLERANCE


def find_start(
    target: Target,
    kind: str | ArrayLike | Mapping[str, Any] | Start = "mode",
    *,
    dense: bool = True,
    rng: np.random.Generator,
) -> Start:
    """Whitened coordinates for ``target``.

    ``kind`` is "mode" (the default), "pathfinder" (CmdStan's), "zero" (centre 0, unit scales), an
    unconstrained point (D,), a mapping of the model's variables to values, or a start found before.
    ``dense`` asks for a full factor, for families that can use one; mean-field needs a diagonal scale, and
    takes the conditional standard deviations, which are its optimum on a Gaussian. Raises TargetError where
    no point with a finite density is found, ValueError for an unknown ``kind``.
    """
    if isinstance(kind, Start):
        return kind
    if isinstance(kind, str):
        if kind == "mode":
            return _from_mode(target, dense, rng)
        if kind == "pathfinder":
            return _from_pathfinder(target, dense, rng)
        if kind == "zero":
            return Start(Whitening.identity(target.dim), "zero", "started from zero with unit scales")
        raise ValueError(f"start must be 'mode', 'pathfinder', 'zero' or values, found {kind!r}")
    point = target.unconstrain(kind) if isinstance(kind, Mapping) else np.asarray(kind, dtype=float)
    if point.shape != (target.dim,):
        raise ValueError(
            f"start must have {target.dim} unconstrained values, found an array of shape {point.shape}"
        )
    if not np.isfinite(target.log_density(point)):
        raise TargetError(f"the density of {target.name} is not finite at the given start: {_why(target)}")
    return Start(_whiten(_curvature(target, point, dense)), "given", "started from the given values")


@dataclass(frozen=True)
class Mode:
    """A start of its own among several, with the ELBO of its Gaussian."""

    start: Start
    elbo: float


def find_modes(target: Target, *, dense: bool = True, rng: np.random.Generator) -> list[Mode]:
    """The usual start and, where that is a mode, the others that ascents from random points end at.

    Best ELBO first. An ascent costs some tens of gradients and often ends where another did; only a new end
    is worth its curvature. Raises TargetError as ``find_start`` does.
    """
    first = _from_mode(target, dense, rng)
    elbo = _AntitheticElbo(target, rng)
    found = [Mode(first, elbo(first.whitening))]
    if first.kind != "mode" or target.dim > MAX_DENSE_DIM:
        return found
    for _ in range(RANDOM_ASCENTS):
        end = _ascend(target, target.find_finite_start(rng), most=200)[-1]
        if any(_near(mode, end) for mode in found):
            continue
        peak = _polish(target, end, dense)
        if not peak.is_mode or any(_near(mode, peak.point) for mode in found):
            continue
        value, _, best = max((elbo(w), i, w) for i, w in enumerate(_shrunk(_whiten(peak))))
        if np.isfinite(value):
            found.append(Mode(Start(best, "mode", "started from a posterior mode and its curvature"), value))
    found.sort(key=lambda mode: -mode.elbo)
    if len(found) > 1:
        logger.info("%s has modes of ELBO %s", target.name, ", ".join(f"{mode.elbo:.1f}" for mode in found))
    return found


def _near(mode: Mode, point: NDArray) -> bool:
    """Whether an ascent that ended at ``point`` found this mode: it ends well within a unit of its top."""
    u = mode.start.whitening.to_u(point[None])[0]
    return float(np.sqrt(np.mean(u * u))) < 1.0


def _why(target: Target) -> str:
    return target.counts.last_rejection or "it is zero there"


def _from_mode(target: Target, dense: bool, rng: np.random.Generator) -> Start:
    origin = np.zeros(target.dim)
    if not np.isfinite(target.log_density(origin)):
        origin = target.find_finite_start(rng)
    path = _ascend(target, origin)
    last = _polish(target, path[-1], dense)
    elbo = _AntitheticElbo(target, rng)
    if last.is_mode:
        at_mode = _whiten(last)
        best = max((elbo(candidate), i, candidate) for i, candidate in enumerate(_shrunk(at_mode)))[2]
        if best is at_mode:
            return Start(best, "mode", "started from the posterior mode and its curvature")
    # A wide or absent mode is no guide: a narrower Gaussian, or one from the way there, may fit better.
    candidates = [Whitening(origin, np.ones(target.dim)), *_shrunk(_whiten(last))]
    for point in _thin(path):
        if np.isfinite(target.log_density(point)):
            candidates += _shrunk(_whiten(_curvature(target, point, dense)))
    value, _, best = max((elbo(candidate), i, candidate) for i, candidate in enumerate(candidates))
    if value == -np.inf:
        raise TargetError(f"no Gaussian with a finite ELBO was found for {target.name}: {_why(target)}")
    found = "the mode does not describe the posterior" if last.is_mode else "no mode was found"
    note = f"{found}; started from the Gaussian of best ELBO on the way of the search"
    logger.info("%s: %s", target.name, note)
    return Start(best, "path", note)


def _ascend(target: Target, origin: NDArray, most: int = 2000) -> list[NDArray]:
    """Iterates of L-BFGS from ``origin`` towards the mode, within ``most`` gradients."""
    path = [origin]
    worst = -target.log_density(origin)

    def negative(z: NDArray) -> tuple[float, NDArray]:
        nonlocal worst
        value, gradient = target.log_density_gradient(z)
        if not np.isfinite(value):
            # A wall for the line search: high enough to turn back, low enough to keep its interpolation sane.
            return float(worst + abs(worst) + 1.0), np.zeros_like(z)
        worst = max(worst, -value)
        return -float(value), -gradient

    optimize.minimize(
        negative,
        origin,
        jac=True,
        method="L-BFGS-B",
        callback=lambda z: path.append(np.array(z)),
        options={"maxiter": 1000, "maxfun": most, "ftol": 1e-13, "gtol": 1e-9},
    )
    return path


def _polish(target: Target, point: NDArray, dense: bool) -> _Curvature:
    """Newton steps in coordinates scaled by the curvature's own diagonal, until the mode is sharp."""
    if target.dim > MAX_DENSE_DIM:
        return _curvature(target, point, dense)
    for _ in range(4):
        here = _curvature(target, point, dense)
        if here.is_mode:
            return here
        unit = _scaled_units(target, point)
        scaled = WhitenedTarget(target, Whitening(point, unit))
        found = optimize.minimize(
            lambda u, scaled=scaled: -float(scaled.log_density(u)),
            np.zeros(target.dim),
            jac=lambda u, scaled=scaled: -scaled.log_density_gradient(u)[1],
            hess=lambda u, scaled=scaled: -_hessian(scaled, u, np.full(target.dim, 1e-3)),
            method="trust-exact",
            options={"maxiter": 30, "gtol": 1e-5, "max_trust_radius": 100.0},
        )
        point = scaled.whitening.to_z(found.x)
        if not found.success:
            break
    return _curvature(target, point, dense)


def _hessian(density: Target | WhitenedTarget, point: NDArray, step: NDArray) -> NDArray:
    """Symmetric Hessian (D, D) by central differences of gradients with a step for each coordinate."""
    dim = len(point)
    for _ in range(6):
        shifts = np.diag(step)
        values, gradients = density.log_density_gradient(np.concatenate([point + shifts, point - shifts]))
        outside = ~(np.isfinite(values[:dim]) & np.isfinite(values[dim:]))
        if not outside.any():
            break
        # A shift has left the support, where the gradient means nothing: come closer.
        step = np.where(outside, 0.1 * step, step)
    rows = (gradients[:dim] - gradients[dim:]) / (2.0 * step[:, None])
    return 0.5 * (rows + rows.T)


def _scaled_units(target: Target, point: NDArray) -> NDArray:
    """A length for each coordinate over which the density changes: |Hessian diagonal|^(-1/2), shape (D,)."""
    unit = np.cbrt(np.finfo(float).eps) * (1.0 + np.abs(point))
    for _ in range(2):
        diagonal = np.abs(np.diagonal(_hessian(target, point, unit * 1e-1)))
        usable = np.isfinite(diagonal) & (diagonal > 0)
        unit = np.where(usable, 1.0 / np.sqrt(np.where(usable, diagonal, 1.0)), 1.0 + np.abs(point))
        unit *= 1e-2
    return 1e2 * unit


def _curvature(target: Target, point: NDArray, dense: bool) -> _Curvature:
    """The Gaussian that -Hessian suggests at ``point``, with flat and negative directions bounded."""
    if target.dim > MAX_DENSE_DIM:
        return _diagonal_curvature(target, point)
    unit = _scaled_units(target, point)
    scaled = WhitenedTarget(target, Whitening(point, unit))
    precision = -_hessian(scaled, np.zeros(target.dim), np.full(target.dim, 1e-3))
    gradient = scaled.log_density_gradient(np.zeros(target.dim))[1]
    if not np.isfinite(precision).all():
        return _Curvature(point, unit, False, np.inf)
    eigenvalues, vectors = np.linalg.eigh(precision)
    positive = bool(eigenvalues[0] > 1e-10 * eigenvalues[-1])
    bounded = eigenvalues if positive else np.maximum(np.abs(eigenvalues), MAX_SCALED_SD**-2)
    decrement = float(((vectors.T @ gradient) ** 2 / bounded).sum())
    if not dense:
        diagonal = np.einsum("ij,j,ij->i", vectors, bounded, vectors)
        return _Curvature(point, unit / np.sqrt(diagonal), positive, decrement)
    # QR of the square root of the covariance gives its Cholesky factor without forming the covariance,
    # whose condition number would be the square.
    root = (vectors / np.sqrt(bounded)).T
    factor = np.asarray(np.linalg.qr(root, mode="r")).T
    factor *= np.sign(np.diagonal(factor))
    return _Curvature(point, unit[:, None] * factor, positive, decrement)


def _diagonal_curvature(target: Target, point: NDArray) -> _Curvature:
    """Hutchinson's estimate of the Hessian's diagonal from 64 random signs; fixed seed, so repeatable."""
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(64, target.dim))
    products = np.stack([target.hvp(point, sign) for sign in signs])
    diagonal = -(signs * products).mean(axis=0)
    gradient = target.log_density_gradient(point)[1]
    bounded = np.clip(diagonal, 1e-4, None)
    return _Curvature(
        point, 1.0 / np.sqrt(bounded), bool((diagonal > 0).all()), float((gradient**2 / bounded).sum())
    )


def _thin(path: list[NDArray], most: int = 12) -> list[NDArray]:
    keep = np.unique(np.linspace(0, len(path) - 1, most).round().astype(int))
    return [path[i] for i in keep]


def _shrunk(whitening: Whitening) -> list[Whitening]:
    """The same Gaussian at several scales, itself first."""
    return [whitening, *(Whitening(whitening.centre, f * whitening.scale) for f in (0.7, 0.5, 0.25, 0.1))]


class _AntitheticElbo:
    """ELBO of the Gaussian N(centre, scale scale^T), over the same 64 antithetic draws for each."""

    def __init__(self, target: Target, rng: np.random.Generator) -> None:
        half = rng.standard_normal((32, target.dim))
        self._target = target
        self._eps = np.concatenate([half, -half])

    def __call__(self, whitening: Whitening) -> float:
        value = self._target.log_density(whitening.to_z(self._eps))
        if not np.isfinite(value).all():
            return -np.inf
        return float(value.mean()) + whitening.log_det + 0.5 * self._target.dim * (1.0 + LOG_2PI)


def _whiten(curvature: _Curvature) -> Whitening:
    return Whitening(curvature.point, curvature.scale)


def _from_pathfinder(target: Target, dense: bool, rng: np.random.Generator) -> Start:
    """Mean and covariance of CmdStan's multi-path Pathfinder draws."""
    from .pathfinder import pathfinder_draws  # CmdStanPy takes a while to import

    draws = pathfinder_draws(target, seed=int(rng.integers(1, 2**31)))
    mean, sd = draws.mean(axis=0), draws.std(axis=0)
    scale = np.where(sd > 0, sd, 1.0)
    if dense and target.dim <= MAX_DENSE_DIM and len(draws) > 2 * target.dim:
        correlation = np.corrcoef(draws / scale, rowvar=False).reshape(target.dim, target.dim)
        # Resampled draws repeat; a little of the identity keeps the factor regular.
        factor = np.linalg.cholesky(0.99 * correlation + 0.01 * np.eye(target.dim))
        return Start(
            Whitening(mean, scale[:, None] * factor), "pathfinder", "started from Pathfinder's draws"
        )
    return Start(Whitening(mean, scale), "pathfinder", "started from Pathfinder's draws")
