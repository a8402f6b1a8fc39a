"""The target: a log density on R^D, its gradient and Hessian-vector product, at one point or many.

Everything else in the library sees a Stan program only through :class:`Target`. It also holds the failure
policy (see :class:`EvaluationCounts`) and the translation between the unconstrained point z and the
program's own variables.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any, NamedTuple

import bridgestan
import numpy as np
from numpy.typing import ArrayLike, NDArray

from dais_stan.data import Data, explain_refusal, read_data, to_json
from dais_stan.engines import find_engine
from dais_stan.engines.batch import Batch, FunctionBatch, NativeBatch, stan_batch
from dais_stan.engines.program import StanProgram
from dais_stan.errors import TargetError
from dais_stan.variables import Variable, coordinate_names, declared_variables, flatten, named_variables

_log = logging.getLogger("dais_stan")

FloatArray = NDArray[np.float64]

_START_RADII = 10  # each half the one before
_START_TRIES = 8  # points for each radius
_MAX_SEED = 2**32 - 1  # Stan's seeds are unsigned 32-bit integers


@dataclass
class EvaluationCounts:
    """How often a target was evaluated, in points.

    Attributes:
        log_density, gradient, hvp: points evaluated. A Hessian-vector product by differences also counts as
            two gradients.
        rejected: points whose evaluation raised or gave a value or derivative that is not finite. Such a
            point has log density -inf and a zero derivative.
        last_rejection: the latest reason, in Stan's own words where Stan gave any.
    """

    log_density: int = 0
    gradient: int = 0
    hvp: int = 0
    rejected: int = 0
    last_rejection: str = ""


class Library(NamedTuple):
    """What another program needs to open a target itself: ``bs_model_construct(data, seed)`` of ``path``.

    ``propto`` says whether constants are dropped, ``thread_safe`` whether threads may share the library.
    """

    path: str
    data: str
    seed: int
    propto: bool
    thread_safe: bool


class Target:
    """An unnormalised log density l(z) on the unconstrained space R^D.

    Made by :meth:`from_stan` or :meth:`from_functions`. Methods take one point (D,) or a batch (N, D), and
    give a result for each. Results do not depend on the number of threads. Targets can be pickled: the other
    process opens the program again.

    Attributes:
        name: the program's name.
        dim: D.
        names: name of each coordinate of z, such as "theta.1".
        normalized: whether the constants of the density are kept, so that an evidence is meaningful.
        has_hvp: whether Hessian-vector products are exact; otherwise they are differences of gradients.
        counts: evaluations and failures so far.
        variables: the program's variables, in declared order.
        program, data, data_json: the Stan program and its data; None, None and "" without Stan.
        engine: where the program's library came from; "" without Stan.
        seed: of the random numbers in the transformed data block.
    """

    def __init__(
        self,
        batch: Batch,
        names: tuple[str, ...],
        variables: dict[str, Variable],
        *,
        name: str,
        normalized: bool,
        has_hvp: bool,
        reopen: tuple[Callable[..., Target], tuple[Any, ...]],
    ) -> None:
        self.name = name
        self.dim = len(names)
        self.names = names
        self.normalized = normalized
        self.has_hvp = has_hvp
        self.counts = EvaluationCounts()
        self.variables = variables
        self.program: StanProgram | None = None
        self.data: dict[str, Any] | None = None
        self.data_json = ""
        self.engine = ""
        self.seed = 0
        self._batch = batch
        self._reopen = reopen
        self._model: bridgestan.StanModel | None = None

    @classmethod
    def from_stan(
        cls,
        stan_file: str | PathLike[str] | None = None,
        *,
        stan_code: str | None = None,
        data: Data = None,
        seed: int = 0,
        engine: str = "auto",
        include_paths: Iterable[str | PathLike[str]] = (),
        threads: int | None = None,
        autodiff_hessian: bool = False,
    ) -> Target:
        """The posterior of a Stan program and its data.

        Args:
            stan_file: path of the program; or give ``stan_code``, its text.
            data: dict, path of a JSON file, or JSON text; see :func:`dais_stan.data.read_data`.
            seed: for random numbers in the transformed data block.
            engine: "auto", "bridgestan", "pypi" or "stanli"; see :func:`dais_stan.engines.find_engine`.
            include_paths: folders with the files that the program includes.
            threads: most threads for one batch; None: the processors this process may use.
            autodiff_hessian: compile exact Hessian-vector products into the library.

        Raises:
            ValueError: a bad argument.
            StanCompileError: the program does not compile.
            TargetError: no such file, no parameters, or data that does not fit the program.
            EngineError: no usable Stan.
        """
        if (stan_file is None) == (stan_code is None):
            raise ValueError("Give either stan_file or stan_code, not both.")
        if stan_code is not None:
            program = StanProgram.from_code(stan_code, include_paths)
        else:
            try:
                program = StanProgram.from_file(stan_file, include_paths)  # type: ignore[arg-type]
            except FileNotFoundError as error:
                raise TargetError(f"There is no Stan program {stan_file}.") from error
        return cls.from_program(program, data, seed, engine, threads, autodiff_hessian)

    @classmethod
    def from_program(
        cls,
        program: StanProgram,
        data: Data = None,
        seed: int = 0,
        engine: str = "auto",
        threads: int | None = None,
        autodiff_hessian: bool = False,
    ) -> Target:
        """As :meth:`from_stan`, of a program that has been read already."""
        _check_seed(seed)
        if threads is not None and threads < 1:
            raise ValueError(f"threads must be at least 1, not {threads}.")
        source = find_engine(engine, autodiff_hessian=autodiff_hessian)
        info = source.info(program)
        if not info.parameters:
            raise TargetError(f"{program.file_name} declares no parameters, so there is nothing to infer.")
        values = read_data(data, info.inputs)
        data_json = to_json(values)
        try:
            model = source.open(program, data_json, seed)
        except TargetError as error:
            raise TargetError(explain_refusal(str(error))) from error
        if model.param_unc_num() == 0:
            raise TargetError(f"With this data, every parameter of {program.file_name} has size 0.")
        flags = model.model_info()
        batch = stan_batch(
            model,
            propto=not source.normalized,
            thread_safe="STAN_THREADS=true" in flags,
            threads=threads or _processors(),
        )
        target = cls(
            batch,
            coordinate_names(model.param_unc_names(), program),
            declared_variables(*_flat_names(model), info, program, values),
            name=program.name,
            normalized=source.normalized,
            has_hvp="BRIDGESTAN_AD_HESSIAN=true" in flags,
            reopen=(cls.from_program, (program, data_json, seed, source.name, threads, autodiff_hessian)),
        )
        target.program, target.data, target.data_json = program, values, data_json
        target.engine, target.seed = source.name, seed
        target._model = model
        return target

    @classmethod
    def from_functions(
        cls,
        log_density_gradient: Callable[[FloatArray], tuple[FloatArray, FloatArray]],
        dim: int,
        *,
        log_density: Callable[[FloatArray], FloatArray] | None = None,
        hvp: Callable[[FloatArray, FloatArray], FloatArray] | None = None,
        names: Iterable[str] | None = None,
        normalized: bool = True,
        name: str = "analytic",
    ) -> Target:
        """A density given by Python functions of a batch; a point it rejects has value -inf or NaN.

        Args:
            log_density_gradient: (N, D) -> ((N,), (N, D)).
            dim: D.
            log_density: (N, D) -> (N,); None: taken from ``log_density_gradient``.
            hvp: (N, D), (N, D) -> (N, D); None: differences of gradients.
            names: of the D coordinates; None: "z.1", "z.2", ...
            normalized: whether the functions keep the density's constants.
            name: for reports.
        """
        if dim < 1:
            raise ValueError(f"dim must be at least 1, not {dim}.")
        coordinates = tuple(names) if names is not None else tuple(f"z.{i + 1}" for i in range(dim))
        if len(coordinates) != dim:
            raise ValueError(f"names must hold {dim} names, not {len(coordinates)}.")
        arguments = (log_density_gradient, dim, log_density, hvp, coordinates, normalized, name)
        return cls(
            FunctionBatch(log_density_gradient, log_density, hvp),
            coordinates,
            named_variables(coordinates, (dim, dim, dim)),
            name=name,
            normalized=normalized,
            has_hvp=hvp is not None,
            reopen=(_from_functions, arguments),
        )

    def __reduce__(self) -> tuple[Callable[..., Target], tuple[Any, ...]]:
        return self._reopen

    def __repr__(self) -> str:
        return f"<Target {self.name}: {self.dim} unconstrained dimensions, {self.engine or 'functions'}>"

    def log_density(self, z: ArrayLike) -> Any:
        """l(z): a float for one point, (N,) for a batch; -inf where the point is rejected."""
        points = self._points("z", z)
        value = np.empty(len(points))
        if len(points):
            self._note(self._batch.log_density(points, value))
        self.counts.log_density += len(points)
        return value if np.ndim(z) == 2 else float(value[0])

    def log_density_gradient(self, z: ArrayLike) -> tuple[Any, FloatArray]:
        """l(z) and its gradient: (float, (D,)) or ((N,), (N, D)); (-inf, 0) where the point is rejected."""
        points = self._points("z", z)
        value, gradient = np.empty(len(points)), np.empty(points.shape)
        if len(points):
            self._note(self._batch.gradient(points, value, gradient))
        self.counts.gradient += len(points)
        return (value, gradient) if np.ndim(z) == 2 else (float(value[0]), gradient[0])

    def hvp(self, z: ArrayLike, v: ArrayLike, gradient: FloatArray | None = None) -> FloatArray:
        """The Hessian of l at z times v: (D,) or (N, D); 0 where the point is rejected.

        Exact where ``has_hvp``; otherwise a difference of gradients with r = sqrt(eps) (1 + |z|) / |v|, the
        rule of Stan's math library: central, [g(z + r v) - g(z - r v)] / (2 r), or where the caller knows
        ``gradient``, g(z) of the shape of z, one-sided, [g(z + r v) - g(z)] / r, at half the cost. With so
        small an r both are off by about sqrt(eps) relative: rounding in the former, curvature in the latter.
        """
        points, vectors = self._points("z", z), self._points("v", v)
        if points.shape != vectors.shape:
            raise ValueError(f"v must have the shape of z, {np.shape(z)}, not {np.shape(v)}.")
        if self.has_hvp:
            product = np.empty(points.shape)
            if len(points):
                self._note(self._batch.hvp(points, vectors, product))
        else:
            known = None if gradient is None else self._points("gradient", gradient)
            product = self._difference(points, vectors, known)
        self.counts.hvp += len(points)
        return product if np.ndim(z) == 2 else product[0]

    def _difference(self, z: FloatArray, v: FloatArray, known: FloatArray | None) -> FloatArray:
        length = np.linalg.norm(v, axis=1, keepdims=True)
        reach = np.sqrt(np.finfo(float).eps) * (1.0 + np.linalg.norm(z, axis=1, keepdims=True))
        r = reach / np.where(length > 0, length, 1.0)
        if known is not None:
            value, gradient = self.log_density_gradient(z + r * v)
            return np.where(np.isfinite(value)[:, None], (gradient - known) / r, 0.0)
        value, gradient = self.log_density_gradient(np.concatenate([z + r * v, z - r * v]))
        n = len(z)
        usable = np.isfinite(value[:n]) & np.isfinite(value[n:])
        return np.where(usable[:, None], (gradient[:n] - gradient[n:]) / (2.0 * r), 0.0)

    def constrain(
        self, z: ArrayLike, seed: int | None = None, generated: bool = True
    ) -> dict[str, NDArray[np.float64]]:
        """The program's own variables at z.

        Args:
            z: (D,) or (N, D).
            seed: of the one stream of random numbers behind the generated quantities of all N draws; None:
                a fresh one.
            generated: whether to compute generated quantities.

        Returns:
            name -> (N, *declared shape), or (*declared shape) for one point. Where a draw's generated
            quantities or transformed parameters cannot be computed they are NaN, and a warning in the log
            says for how many draws.
        """
        points = self._points("z", z)
        if seed is not None:
            _check_seed(seed)
        flat = points if self._model is None else self._constrained(self._model, points, seed, generated)
        values = {
            name: flat[:, variable.columns]
            for name, variable in self.variables.items()
            if generated or variable.block != "generated_quantities"
        }
        return values if np.ndim(z) == 2 else {name: value[0] for name, value in values.items()}

    @staticmethod
    def _constrained(
        model: bridgestan.StanModel, points: FloatArray, seed: int | None, generated: bool
    ) -> FloatArray:
        if seed is None:
            seed = int(np.random.default_rng().integers(_MAX_SEED))
        rng = model.new_rng(seed)
        flat = np.full((len(points), model.param_num(include_tp=True, include_gq=generated)), np.nan)
        failed, message = 0, ""
        for point, row in zip(points, flat, strict=True):
            try:
                model.param_constrain(point, include_tp=True, include_gq=generated, out=row, rng=rng)
            except RuntimeError as error:
                failed, message = failed + 1, str(error)
                row[:] = np.nan
                computable = _constrain_what_can_be(model, point)
                row[: len(computable)] = computable
        if failed:
            _log.warning(
                "%d of %d draws are not complete (NaN for what Stan cannot compute): %s",
                failed,
                len(points),
                message,
            )
        return flat

    def unconstrain(self, values: Mapping[str, ArrayLike]) -> FloatArray:
        """The point z (D,) at which the parameters have these values; other variables are ignored.

        Raises:
            TargetError: a parameter is missing, has another shape than declared, or breaks its constraint.
        """
        flat = flatten(values, self.variables)
        if self._model is None:
            return flat
        try:
            return self._model.param_unconstrain(flat)
        except RuntimeError as error:
            raise TargetError(f"These values are no point of {self.name}: {error}") from error

    def find_finite_start(self, rng: np.random.Generator, radius: float = 2.0) -> FloatArray:
        """A point (D,) with a finite log density and gradient, uniform in a cube about the origin.

        Like Stan it draws from (-radius, radius)^D; where every try fails it halves the radius, and says so
        in the log, until it tries the origin itself.

        Raises:
            TargetError: none of the tries is finite.
        """
        radii = [*(radius * 0.5**k for k in range(_START_RADII)), 0.0]
        for r in radii:
            points = rng.uniform(-r, r, (_START_TRIES if r > 0 else 1, self.dim))
            finite = np.isfinite(self.log_density_gradient(points)[0])
            if finite.any():
                if r < radius:
                    _log.info("%s: no finite point at radius %g; one was found at %g", self.name, radius, r)
                return points[int(np.argmax(finite))]
        raise TargetError(
            f"No finite point of {self.name} was found near the start: tried "
            f"{_START_RADII * _START_TRIES + 1} points within {radius:g} of the origin of the unconstrained "
            "space. If a parameter has a limited range, declare it with bounds such as real<lower=0>. "
            f"The last reason was: {self.counts.last_rejection}"
        )

    def _points(self, argument: str, z: ArrayLike) -> FloatArray:
        """z as a C-contiguous (N, D) array."""
        points = np.ascontiguousarray(z, dtype=np.float64)
        if points.ndim not in (1, 2) or points.shape[-1] != self.dim:
            raise ValueError(
                f"{argument} must have shape ({self.dim},) or (N, {self.dim}), not {np.shape(z)}."
            )
        return points if points.ndim == 2 else points[np.newaxis]

    @property
    def library(self) -> Library | None:
        """The compiled program with its data; None where the target is made of Python functions."""
        if self._model is None:
            return None
        thread_safe = "STAN_THREADS=true" in self._model.model_info()
        return Library(self._model.lib_path, self._model.data, self.seed, not self.normalized, thread_safe)

    @property
    def native_batch(self) -> NativeBatch | None:
        """What native kernels evaluate the target through; None where it is made of Python functions."""
        return self._batch if isinstance(self._batch, NativeBatch) else None

    def record(self, *, gradients: int = 0, hvps: int = 0, outcome: tuple[int, str]) -> None:
        """Count what a native kernel evaluated; ``outcome`` is that of ``NativeBatch.outcome``."""
        self.counts.gradient += gradients
        self.counts.hvp += hvps
        self._note(outcome)

    def _note(self, outcome: tuple[int, str]) -> None:
        failed, message = outcome
        if failed:
            self.counts.rejected += failed
            self.counts.last_rejection = message


def _from_functions(
    log_density_gradient: Any, dim: int, log_density: Any, hvp: Any, names: Any, normalized: bool, name: str
) -> Target:
    return Target.from_functions(
        log_density_gradient,
        dim,
        log_density=log_density,
        hvp=hvp,
        names=names,
        normalized=normalized,
        name=name,
    )


def _flat_names(model: bridgestan.StanModel) -> tuple[list[str], tuple[int, int, int]]:
    """Stan's names of all constrained values, and how many there are up to the end of each block."""
    ends = (
        model.param_num(),
        model.param_num(include_tp=True),
        model.param_num(include_tp=True, include_gq=True),
    )
    return model.param_names(include_tp=True, include_gq=True)[: ends[-1]], ends


def _constrain_what_can_be(model: bridgestan.StanModel, point: FloatArray) -> FloatArray:
    """The parameters at a point, and the transformed parameters if they can be computed.

    stanli always computes the generated quantities, so that there even the parameters can be out of reach.
    """
    for include_tp in (True, False):
        with contextlib.suppress(RuntimeError):
            return model.param_constrain(point, include_tp=include_tp)
    return np.empty(0)


def _processors() -> int:
    """Processors that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS
        return os.cpu_count() or 1


def _check_seed(seed: int) -> None:
    if not 0 <= seed <= _MAX_SEED:
        raise ValueError(f"seed must be an integer from 0 to {_MAX_SEED}, not {seed}.")
