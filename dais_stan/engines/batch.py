"""Evaluation of many points in one call: compiled and threaded where there is a C++ compiler.

Every batch evaluator has the three methods of :class:`Batch` and one failure policy: a point whose
evaluation raises, or gives anything that is not finite, gets log density -inf and a zero derivative, and is
counted. ``batch.cpp`` holds it for Stan programs, :func:`_settle` for everything evaluated from Python.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import platform
import subprocess
import weakref
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import bridgestan
import numpy as np
from numpy.typing import NDArray

from dais_stan.engines.cache import build_once
from dais_stan.engines.toolchain import compiler_command, require
from dais_stan.errors import EngineError

_log = logging.getLogger("dais_stan")

FloatArray = NDArray[np.float64]

_SOURCES = tuple(
    Path(__file__).with_name(name) for name in ("batch.cpp", "dais.cpp", "evaluator.hpp", "pool.hpp")
)
_FLAGS = ("-std=c++17", "-O2", "-shared", "-fPIC", "-pthread")
_BS_FUNCTIONS = (
    "bs_log_density",
    "bs_log_density_gradient",
    "bs_log_density_hessian_vector_product",
    "bs_free_error_msg",
)


class Batch(Protocol):
    """Evaluates n points into the caller's arrays; every array is C-contiguous float64, with n > 0.

    Each method returns the number of points that failed and the message of the first of them.
    """

    def log_density(self, z: FloatArray, value: FloatArray) -> tuple[int, str]:
        """z (n, D) -> value (n,)."""

    def gradient(self, z: FloatArray, value: FloatArray, gradient: FloatArray) -> tuple[int, str]:
        """z (n, D) -> value (n,) and gradient (n, D)."""

    def hvp(self, z: FloatArray, v: FloatArray, product: FloatArray) -> tuple[int, str]:
        """z, v (n, D) -> product (n, D), the Hessian at each z times its v."""


def stan_batch(model: bridgestan.StanModel, *, propto: bool, thread_safe: bool, threads: int) -> Batch:
    """The best evaluator this machine has for a Stan model: compiled, or else a loop in Python.

    Args:
        model: the model with its data.
        propto: drop the constants of the density.
        thread_safe: whether the model's library may run on several threads at once.
        threads: most threads for one batch; results do not depend on it.
    """
    try:
        library = batch_library()
    except EngineError as error:
        _log.warning("%s Points are evaluated one by one from Python, which is slower.", error)
        return PythonLoop(model, propto)
    return NativeBatch(library, model, propto=propto, thread_safe=thread_safe, threads=threads)


class NativeBatch:
    """A Stan model's points through ``batch.cpp``, without the GIL, on the shared thread pool."""

    def __init__(
        self,
        library: ctypes.CDLL,
        model: bridgestan.StanModel,
        *,
        propto: bool,
        thread_safe: bool,
        threads: int,
    ) -> None:
        self._model = model  # the evaluator holds its address
        addresses = [ctypes.cast(getattr(model.stanlib, name), ctypes.c_void_p) for name in _BS_FUNCTIONS]
        self.address: int = library.dais_evaluator_new(
            model.model, *addresses, model.param_unc_num(), propto, thread_safe, threads
        )
        self.library = library
        weakref.finalize(self, library.dais_evaluator_free, self.address)
        self._log_density = library.dais_log_density
        self._gradient = library.dais_gradient
        self._hvp = library.dais_hvp
        self._last_message = library.dais_last_message

    def log_density(self, z: FloatArray, value: FloatArray) -> tuple[int, str]:
        """See :class:`Batch`."""
        return self.outcome(self._log_density(self.address, len(z), address_of(z), address_of(value)))

    def gradient(self, z: FloatArray, value: FloatArray, gradient: FloatArray) -> tuple[int, str]:
        """See :class:`Batch`."""
        failed = self._gradient(self.address, len(z), address_of(z), address_of(value), address_of(gradient))
        return self.outcome(failed)

    def hvp(self, z: FloatArray, v: FloatArray, product: FloatArray) -> tuple[int, str]:
        """See :class:`Batch`."""
        return self.outcome(
            self._hvp(self.address, len(z), address_of(z), address_of(v), address_of(product))
        )

    def outcome(self, failed: int) -> tuple[int, str]:
        """The number of failures, and the first one's message, of a call that has just returned."""
        return (failed, self._last_message().decode("utf-8", "replace")) if failed else (0, "")


class FunctionBatch:
    """Points through Python functions of a whole batch, such as an analytic density's.

    Args:
        log_density_gradient: (n, D) -> ((n,), (n, D)).
        log_density: (n, D) -> (n,); None: the first value of ``log_density_gradient``.
        hvp: (n, D), (n, D) -> (n, D); None where there is none.
    """

    def __init__(
        self,
        log_density_gradient: Callable[[FloatArray], tuple[FloatArray, FloatArray]],
        log_density: Callable[[FloatArray], FloatArray] | None = None,
        hvp: Callable[[FloatArray, FloatArray], FloatArray] | None = None,
    ) -> None:
        self._log_density_gradient = log_density_gradient
        self._log_density = log_density or (lambda z: log_density_gradient(z)[0])
        self._hvp = hvp

    def log_density(self, z: FloatArray, value: FloatArray) -> tuple[int, str]:
        """See :class:`Batch`."""
        value[...] = self._log_density(z)
        return _settle(value, np.empty((len(z), 0)))

    def gradient(self, z: FloatArray, value: FloatArray, gradient: FloatArray) -> tuple[int, str]:
        """See :class:`Batch`."""
        value[...], gradient[...] = self._log_density_gradient(z)
        return _settle(value, gradient)

    def hvp(self, z: FloatArray, v: FloatArray, product: FloatArray) -> tuple[int, str]:
        """See :class:`Batch`."""
        if self._hvp is None:
            raise NotImplementedError("this target has no Hessian-vector product of its own")
        product[...] = self._hvp(z, v)
        return _settle(np.zeros(len(z)), product)


class PythonLoop:
    """A Stan model's points one by one from Python, for a machine without a C++ compiler (stanli alone)."""

    def __init__(self, model: bridgestan.StanModel, propto: bool) -> None:
        self._model, self._propto = model, propto

    def log_density(self, z: FloatArray, value: FloatArray) -> tuple[int, str]:
        """See :class:`Batch`."""
        nothing = np.empty((len(z), 0))
        return self._each(
            lambda i: (self._model.log_density(z[i], propto=self._propto), nothing[i]), value, nothing
        )

    def gradient(self, z: FloatArray, value: FloatArray, gradient: FloatArray) -> tuple[int, str]:
        """See :class:`Batch`."""
        return self._each(
            lambda i: self._model.log_density_gradient(z[i], propto=self._propto), value, gradient
        )

    def hvp(self, z: FloatArray, v: FloatArray, product: FloatArray) -> tuple[int, str]:
        """See :class:`Batch`."""
        return self._each(
            lambda i: self._model.log_density_hessian_vector_product(z[i], v[i], propto=self._propto),
            np.empty(len(z)),
            product,
        )

    def _each(
        self,
        evaluate: Callable[[int], tuple[float, FloatArray]],
        value: FloatArray,
        derivative: FloatArray,
    ) -> tuple[int, str]:
        errors: dict[int, str] = {}
        for i in range(len(value)):
            try:
                value[i], derivative[i] = evaluate(i)
            except RuntimeError as error:  # what bridgestan makes of a Stan exception
                value[i], errors[i] = np.nan, str(error)
        return _settle(value, derivative, errors)


def _settle(
    value: FloatArray, derivative: FloatArray, errors: Mapping[int, str] | None = None
) -> tuple[int, str]:
    """Apply the failure policy in place; return the number of failures and the first one's message.

    ``errors`` holds the message of each point that raised; its value is NaN.
    """
    failed = ~(np.isfinite(value) & np.isfinite(derivative).all(axis=1))
    count = int(np.count_nonzero(failed))
    if count == 0:
        return 0, ""
    first = int(np.argmax(failed))
    message = (errors or {}).get(first) or _describe(float(value[first]))
    value[failed] = -np.inf
    derivative[failed] = 0.0
    return count, message


def _describe(value: float) -> str:
    if np.isfinite(value):
        return "the derivative is not finite"
    return "the log density is " + ("NaN" if np.isnan(value) else f"{value:+}")


def address_of(array: FloatArray) -> int:
    """Address of the first element; four times as quick as ``array.ctypes.data`` where it can be."""
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(array))  # type: ignore[arg-type]
    except (TypeError, ValueError):  # a read-only array
        return array.ctypes.data


@cache
def batch_library() -> ctypes.CDLL:
    """The compiled ``batch.cpp`` and ``dais.cpp``, from the cache or built in a few seconds.

    Raises:
        EngineError: there is no C++ compiler, or it fails; the message is its own.
    """
    compiler = compiler_command()
    require("a C++ compiler", compiler[0])
    sources = b"".join(source.read_bytes() for source in _SOURCES)
    identity = "\0".join([*compiler, platform.platform(), platform.machine(), *_FLAGS])
    key = hashlib.sha256(sources + identity.encode()).hexdigest()[:32]

    def build(folder: Path) -> None:
        units = [str(source) for source in _SOURCES if source.suffix == ".cpp"]
        command = [*compiler, *_FLAGS, *units, "-o", str(folder / "batch.so")]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        if done.returncode:
            raise EngineError(f"{compiler[0]} could not compile the batch evaluator: {done.stderr.strip()}")

    return _declare(ctypes.CDLL(str(build_once(f"batch-{key}", build) / "batch.so")))


def _declare(library: ctypes.CDLL) -> ctypes.CDLL:
    """Give each exported function its signature."""
    pointer, count = ctypes.c_void_p, ctypes.c_long
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "dais_evaluator_new": (pointer, [pointer] * 5 + [count] + [ctypes.c_int] * 3),
        "dais_evaluator_free": (None, [pointer]),
        "dais_last_message": (ctypes.c_char_p, []),
        "dais_log_density": (count, [pointer, count] + [pointer] * 2),
        "dais_gradient": (count, [pointer, count] + [pointer] * 3),
        "dais_hvp": (count, [pointer, count] + [pointer] * 3),
        "dais_tape_size": (count, [pointer, pointer, count]),
        "dais_gradient_size": (count, [pointer, pointer]),
        "dais_forward": (count, [pointer, pointer, count] + [pointer] * 5),
        "dais_backward": (count, [pointer, pointer, count] + [pointer] * 5),
        "dais_plain_loop": (None, [pointer, count] + [pointer] * 3),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
