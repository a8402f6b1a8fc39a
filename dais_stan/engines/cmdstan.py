"""CmdStan, genuine or built from the httpstan wheel, behind the unchanged ``cmdstanpy`` package."""

from __future__ import annotations

import hashlib
import os
import shlex
from pathlib import Path

import cmdstanpy

from dais_stan.engines.cache import build_once, lock
from dais_stan.engines.program import StanProgram
from dais_stan.engines.pypi_stan import layout
from dais_stan.engines.toolchain import run_make
from dais_stan.errors import EngineError


def find_cmdstan() -> Path | None:
    """Folder of an installed CmdStan: ``CMDSTAN``, else the newest below ``~/.cmdstan``.

    Raises:
        EngineError: ``CMDSTAN`` is set and is not a CmdStan folder.
    """
    chosen = os.environ.get("CMDSTAN")
    if chosen and not (Path(chosen).expanduser() / "makefile").is_file():
        raise EngineError(f"CMDSTAN is set to {chosen}, which is not a CmdStan folder (no makefile).")
    if chosen and not is_from_pypi(Path(chosen)):
        return Path(chosen).expanduser().absolute()
    default = Path("~/.cmdstan").expanduser()
    newest = cmdstanpy.utils.get_latest_cmdstan(str(default)) if default.is_dir() else None
    return default / newest if newest else None


def is_from_pypi(home: Path) -> bool:
    """Whether a CmdStan folder is one of those that this library lays out."""
    return (home / "httpstan").exists()


def cmdstan_home() -> Path:
    """Folder of CmdStan: an installed one wins; otherwise one built from the httpstan wheel.

    Raises:
        EngineError: neither is there.
    """
    return find_cmdstan() or layout.cmdstan_home()


def cmdstan_model(program: StanProgram, user_header: Path | None = None) -> cmdstanpy.CmdStanModel:
    """The program as a CmdStanPy model, compiled first if it has not been seen before.

    ``CMDSTAN`` is set for this process, as CmdStanPy itself does.

    Args:
        program: any Stan program; its path may have spaces and non-ASCII letters.
        user_header: a C++ header that defines the functions which the program only declares.

    Raises:
        StanCompileError: stanc or the C++ compiler refuses the program.
        EngineError: no CmdStan, or no compiler.
        FileNotFoundError: there is no such header.
    """
    home = cmdstan_home()
    cmdstanpy.set_cmdstan_path(str(home))
    flags = ["--allow-undefined"] if user_header else []
    header_text = user_header.read_text(encoding="utf-8") if user_header else ""
    key = program.content_key("cmdstan", _identity(home), header_text, *flags)

    def build(folder: Path) -> None:
        program.info(_stanc(home), flags)  # stanc's message, clean, before anything slow
        _build_shared_parts(home)
        file, includes = program.write(folder)
        # make cannot take spaces in the header's path, but an #include can.
        header = folder / "user_header.hpp"
        if user_header:
            header.write_text(f'#include "{user_header.absolute()}"\n', encoding="utf-8")
        stanc_flags = shlex.join([*program.stanc_flags(includes), *flags]).replace("$", "$$")
        arguments = [f"STANCFLAGS={stanc_flags}", *([f"USER_HEADER={header}"] if user_header else [])]
        run_make(home, [*arguments, str(file.with_suffix(""))], program.file_name)
        file.with_suffix(".hpp").unlink(missing_ok=True)

    folder = build_once(f"models/{program.name[:40]}-cmdstan-{key}", build)
    with cmdstanpy.disable_logging():  # it announces each step on stderr
        return cmdstanpy.CmdStanModel(exe_file=folder / program.name)


def _identity(home: Path) -> str:
    """Changes with the folder, the version of Stan, its makefile and the user's own make/local."""
    files = [home / "makefile", home / "make" / "local"]
    content = b"".join(file.read_bytes() for file in files if file.is_file())
    return f"{home} {hashlib.sha256(content).hexdigest()}"


def _stanc(home: Path) -> Path:
    stanc = home / "bin" / "stanc"
    if not stanc.exists():
        raise EngineError(f"{home} is not a complete CmdStan: it has no bin/stanc; run `make build` there.")
    return stanc


def _build_shared_parts(home: Path) -> None:
    """Build what all models share, once, while other processes wait."""
    if is_from_pypi(home):
        with lock(f"make-{hashlib.sha256(str(home).encode()).hexdigest()[:12]}"):
            run_make(home, ["build"], "the parts that every CmdStan model shares")
