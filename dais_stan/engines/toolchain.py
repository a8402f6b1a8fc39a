"""What compiling Stan needs of the machine, make and a C++ compiler, and how make is run."""

from __future__ import annotations

import logging
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from dais_stan.errors import EngineError, StanCompileError

_log = logging.getLogger("dais_stan")


def require_toolchain() -> None:
    """Raise EngineError, with the command that mends it, when make or the C++ compiler is missing."""
    require("make", make_program())
    require("a C++ compiler", compiler())


def require(what: str, program: str) -> None:
    """Raise EngineError, with the command that mends it, when the program is missing."""
    if shutil.which(program) is None:
        raise EngineError(
            f"{what} ({program}) is needed to compile Stan and was not found; run: {install_command()}"
        )


def install_command() -> str:
    """The command that installs make and a C++ compiler."""
    return "xcode-select --install" if sys.platform == "darwin" else "sudo apt-get install make g++"


def make_program() -> str:
    """The make that will be called."""
    return os.environ.get("MAKE", "make")


def compiler() -> str:
    """The C++ compiler that the makefiles will call."""
    return compiler_command()[0]


def compiler_command() -> list[str]:
    """The same with the arguments that CXX gives it, such as those of ccache."""
    chosen = shlex.split(os.environ.get("CXX", ""))
    return chosen or ["clang++" if sys.platform == "darwin" else "g++"]


def run_make(home: Path, arguments: Sequence[str], what: str, hint: str = "") -> None:
    """Run make in the folder of a BridgeStan or CmdStan.

    Args:
        what: what is built, for the log and the error message.
        hint: ends the error message.

    Raises:
        StanCompileError: make fails; the message holds the compiler's first errors.
        EngineError: there is no make or no compiler.
    """
    require_toolchain()
    _log.info("compiling %s", what)
    command = [os.environ.get("MAKE", "make"), *arguments]
    done = subprocess.run(command, cwd=home, capture_output=True, check=False)
    if done.returncode:
        message = _first_errors(done.stderr.decode("utf-8", "replace"))
        raise StanCompileError(f"the C++ build of {what} failed:\n{message}{hint}")


def _first_errors(output: str) -> str:
    """The compiler's first errors, without the pages of notes on templates that follow each."""
    errors = [line for line in output.splitlines() if "error" in line.lower()]
    return "\n".join(errors[:5]) if errors else output[-2000:].strip()
