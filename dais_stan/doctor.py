"""What dais-stan needs of this machine: looked for, found or not, tried, and how to mend what fails."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .errors import EngineError

#: mu has mean 3 and sd 2, so that gradient and draws can be held against the truth.
TINY_MODEL = "parameters {\n  real mu;\n}\nmodel {\n  mu ~ normal(3, 2);\n}\n"
TINY_NAME = "dais_stan_doctor"


@dataclass(frozen=True)
class Finding:
    """One check: what was looked for, whether all is well, what was found, and the command that mends it."""

    what: str
    ok: bool
    found: str
    mend: str


class _Problem(Exception):
    """A failed check: what was found, and a command of its own that mends it where there is one."""

    def __init__(self, found: str, mend: str = "") -> None:
        super().__init__(found)
        self.mend = mend


def diagnose() -> Iterator[Finding]:
    """Run every check in turn, each whatever became of those before it.

    The last two compile a tiny model and sample it, which takes up to a minute or two the first time.
    """
    for what, check, mend in CHECKS:
        try:
            yield Finding(what, True, check(), "")
        except _Problem as problem:
            yield Finding(what, False, str(problem), problem.mend or mend())
        except Exception as error:  # whatever it is, the other checks are still of use
            yield Finding(what, False, str(error) or type(error).__name__, mend())


def _python() -> str:
    return f"{platform.python_version()} ({sys.executable}) on {platform.system()} {platform.machine()}"


def _libraries() -> str:
    from .arviz_io import arviz

    generation = "InferenceData" if hasattr(arviz, "InferenceData") else "DataTree"
    others = ", ".join(
        f"{name} {importlib.metadata.version(name)}"
        for name in ("numpy", "scipy", "xarray", "bridgestan", "cmdstanpy")
    )
    return f"ArviZ {importlib.metadata.version('arviz')} ({generation}), {others}"


def _make() -> str:
    from .engines.toolchain import make_program

    return _version(make_program())


def _compiler() -> str:
    from .engines.toolchain import compiler

    return _version(compiler())


def _version(program: str) -> str:
    """The first line of ``program --version``, and where the program is."""
    path = shutil.which(program)
    if path is None:
        raise _Problem(f"no program {program} on the PATH")
    done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise _Problem(f"{path} --version failed: {done.stderr.strip()}")
    return f"{done.stdout.splitlines()[0]} ({path})"


def _bridgestan() -> str:
    from .engines.bridgestan import find_bridgestan

    return _installed("BRIDGESTAN", "~/.bridgestan", find_bridgestan)


def _cmdstan() -> str:
    from .engines.cmdstan import find_cmdstan

    return _installed("CMDSTAN", "~/.cmdstan", find_cmdstan)


def _installed(variable: str, folder: str, find: Callable[[], Path | None]) -> str:
    try:
        home = find()
    except EngineError as error:
        raise _Problem(str(error), f"unset {variable}") from error
    if home:
        return str(home)
    setting = os.environ.get(variable) or "not set"
    return f"none ({variable} is {setting}, nothing in {folder}); Stan from PyPI serves instead"


def _httpstan() -> str:
    from .engines.bridgestan import find_bridgestan
    from .engines.cmdstan import find_cmdstan
    from .engines.pypi_stan import layout

    try:
        folder = layout.httpstan_folder()
    except EngineError:
        if find_bridgestan() and find_cmdstan():
            return "not installed, nor needed: BridgeStan and CmdStan are"
        raise
    version = importlib.metadata.version("httpstan")
    return f"httpstan {version} with Stan {layout.stan_version()} ({folder})"


def _cache() -> str:
    from .engines.cache import cache_dir

    folder = cache_dir()
    with tempfile.TemporaryFile(dir=folder):
        pass
    size = sum(file.lstat().st_size for file in folder.rglob("*") if not file.is_symlink())
    return f"{folder}, writable, {size / 1e6:.0f} MB"


def _stanli() -> str:
    try:
        return f"stanli {importlib.metadata.version('stanli')}"
    except importlib.metadata.PackageNotFoundError:
        return 'not installed, and optional (pip install "dais-stan[stanli]")'


def _compile_and_evaluate() -> str:
    from .engines.cache import cache_dir
    from .engines.program import StanProgram
    from .target import Target

    for folder in (cache_dir() / "models").glob(f"{TINY_NAME}-*"):
        shutil.rmtree(folder)  # so that the compiler is tried, not the cache
    began = time.perf_counter()
    target = Target.from_program(StanProgram(TINY_MODEL, TINY_NAME))
    seconds = time.perf_counter() - began
    value, gradient = target.log_density_gradient(np.array([1.0]))
    expected = -0.5 - np.log(2.0) - 0.5 * np.log(2.0 * np.pi)
    if not np.allclose([value, gradient[0]], [expected, 0.5], rtol=1e-9):
        raise _Problem(f"log density {value} and gradient {gradient[0]} at 1, expected {expected} and 0.5")
    return f"compiled in {seconds:.1f} s by engine {target.engine}; log density and gradient are right"


def _nuts() -> str:
    from .engines.program import StanProgram
    from .nuts import sample
    from .target import Target

    began = time.perf_counter()
    fit = sample(Target.from_program(StanProgram(TINY_MODEL, TINY_NAME)), chains=1, seed=1)
    seconds = time.perf_counter() - began
    draws = fit.draws()["mu"]
    if abs(draws.mean() - 3.0) > 1.0 or abs(draws.std() - 2.0) > 1.0:
        raise _Problem(f"mean {draws.mean():.2f} and sd {draws.std():.2f}, expected 3 and 2")
    return f"compiled and sampled in {seconds:.1f} s: mean {draws.mean():.2f} (3), sd {draws.std():.2f} (2)"


def _pip(requirement: str) -> Callable[[], str]:
    return lambda: f"{shlex.quote(sys.executable)} -m pip install --upgrade {shlex.quote(requirement)}"


def _install_tools() -> str:
    from .engines.toolchain import install_command

    return install_command()


def _other_cache() -> str:
    return 'export DAIS_STAN_CACHE="$HOME/dais-stan-cache"'


def _mend_build() -> str:
    """What makes a build fail is a missing tool or else, most likely, something stale in the cache."""
    from .engines.cache import cache_dir
    from .engines.toolchain import require_toolchain

    try:
        require_toolchain()
        built = [cache_dir() / name for name in ("homes", "headers", "models")]
        return f"rm -rf {shlex.join(map(str, built))}"
    except EngineError:
        return _install_tools()
    except OSError:
        return _other_cache()


CHECKS: tuple[tuple[str, Callable[[], str], Callable[[], str]], ...] = (
    ("Python", _python, _pip("dais-stan")),
    ("libraries", _libraries, _pip("dais-stan")),
    ("make", _make, _install_tools),
    ("C++ compiler", _compiler, _install_tools),
    ("installed BridgeStan", _bridgestan, lambda: "unset BRIDGESTAN"),
    ("installed CmdStan", _cmdstan, lambda: "unset CMDSTAN"),
    ("Stan from PyPI", _httpstan, _pip("httpstan")),
    ("cache", _cache, _other_cache),
    ("stanli", _stanli, _pip("stanli")),
    ("gradient of a tiny model", _compile_and_evaluate, _mend_build),
    ("NUTS on a tiny model", _nuts, _mend_build),
)
