"""BridgeStan, genuine or built from the httpstan wheel: one `make` per Stan program, kept in the cache."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
from functools import cached_property
from pathlib import Path

import bridgestan
from bridgestan.download import HOME_BRIDGESTAN

from dais_stan.engines.cache import build_once, lock
from dais_stan.engines.program import ProgramInfo, StanProgram
from dais_stan.engines.pypi_stan import layout
from dais_stan.engines.toolchain import run_make
from dais_stan.errors import EngineError, TargetError


def find_bridgestan() -> Path | None:
    """Folder of an installed BridgeStan: ``BRIDGESTAN``, else the newest below ``~/.bridgestan``.

    Raises:
        EngineError: ``BRIDGESTAN`` is set and is not a BridgeStan folder.
    """
    chosen = os.environ.get("BRIDGESTAN")
    if chosen:
        folder = Path(chosen).expanduser().absolute()
        if not (folder / "Makefile").is_file():
            raise EngineError(
                f"BRIDGESTAN is set to {folder}, which is not a BridgeStan folder (no Makefile)."
            )
        return folder
    found = [makefile.parent for makefile in HOME_BRIDGESTAN.glob("bridgestan-*/Makefile")]
    return max(found, key=_version_of, default=None)


def _version_of(folder: Path) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", folder.name))


class BridgeStanEngine:
    """Stan programs compiled by the Makefile of a BridgeStan folder.

    Args:
        name: "bridgestan" or "pypi".
        home: the folder.
        autodiff_hessian: compile with ``BRIDGESTAN_AD_HESSIAN``.
    """

    normalized = True

    def __init__(self, name: str, home: Path, autodiff_hessian: bool = False) -> None:
        self.name = name
        self.home = home
        self._make_args = ["STAN_THREADS=true"]
        if autodiff_hessian:
            self._make_args.append("BRIDGESTAN_AD_HESSIAN=true")

    @cached_property
    def stan_version(self) -> str:
        """Version of Stan, from its header."""
        roots = (self.home / "httpstan" / "include", self.home / "stan" / "src")
        header = next((file for root in roots if (file := root / "stan" / "version.hpp").is_file()), None)
        if header is None:
            raise EngineError(f"{self.home} is not a complete BridgeStan: it has no stan/version.hpp.")
        return layout.read_stan_version(header)

    def info(self, program: StanProgram) -> ProgramInfo:
        """What the program declares."""
        return program.info(self._stanc)

    def open(self, program: StanProgram, data_json: str, seed: int) -> bridgestan.StanModel:
        """The compiled program with its data; see `Engine.open`."""
        library = self.library(program)
        try:
            # The cache's path is made of the content, so a library that is loaded already is the right one.
            return bridgestan.StanModel(library, data_json or "{}", seed=seed, warn=False)
        except RuntimeError as error:
            raise TargetError(f"{program.file_name}: {error}") from error

    def library(self, program: StanProgram) -> Path:
        """Path of the program's shared library, compiled if it has not been seen before.

        Raises:
            StanCompileError: stanc or the C++ compiler refuses the program.
            EngineError: there is no compiler.
        """
        key = program.content_key(str(self.home), self._home_identity, *self._make_args)

        def build(folder: Path) -> None:
            program.info(self._stanc)  # stanc's own message, before anything slow
            file, include_root = program.write(folder)
            target = file.with_name(f"{file.stem}_model.so")
            flags = " ".join(shlex.quote(flag) for flag in program.stanc_flags(include_root))
            self._make_shared_parts()
            self._make([f"STANCFLAGS={flags.replace('$', '$$')}", str(target)], program.file_name)
            _keep_only(folder, {file, target})

        return build_once(f"models/{program.name[:40]}-{key}", build) / f"{program.name}_model.so"

    @cached_property
    def _stanc(self) -> Path:
        stanc = self.home / "bin" / "stanc"
        if not stanc.exists():  # a genuine BridgeStan fetches it on its first build
            with lock(f"make-{self._home_identity}"):
                self._make(["bin/stanc"], "stanc")
        return stanc

    @cached_property
    def _home_identity(self) -> str:
        """Changes with the version of Stan, the Makefile and the user's own make/local."""
        files = [self.home / "Makefile", self.home / "make" / "local"]
        content = b"".join(file.read_bytes() for file in files if file.is_file())
        return f"{self.stan_version}-{hashlib.sha256(str(self.home).encode() + content).hexdigest()[:12]}"

    def _make_shared_parts(self) -> None:
        """Build what all programs share, once, while other processes wait."""
        if self.name == "pypi":
            with lock(f"make-{self._home_identity}"):
                self._make(["-j2", "shared"], "what all Stan programs share (only the first time)")

    def _make(self, arguments: list[str], what: str) -> None:
        run_make(self.home, [*self._make_args, *arguments], what, self._hint())

    def _hint(self) -> str:
        if "BRIDGESTAN_AD_HESSIAN=true" not in self._make_args:
            return ""
        return "\nHint: some functions of Stan have no second derivatives; try autodiff_hessian=False."


def _keep_only(folder: Path, kept: set[Path]) -> None:
    for file in set(folder.iterdir()) - kept:
        if file.is_dir():
            shutil.rmtree(file)
        else:
            file.unlink()
