"""What compiling Stan needs of the machine: make and a C++ compiler."""

from __future__ import annotations

import os
import shlex
import shutil
import sys

from dais_stan.errors import EngineError


def require_toolchain() -> None:
    """Raise EngineError, with the command that mends it, when make or the C++ compiler is missing."""
    for what, program in (("make", make_program()), ("a C++ compiler", compiler())):
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
    chosen = shlex.split(os.environ.get("CXX", ""))
    return chosen[0] if chosen else ("clang++" if sys.platform == "darwin" else "g++")
