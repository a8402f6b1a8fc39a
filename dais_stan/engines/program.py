"""A Stan program as text: its included files, the key of its content, and what stanc says it declares."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import tempfile
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from dais_stan.engines.cache import build_once
from dais_stan.errors import StanCompileError

_INCLUDE = re.compile(r'#include[ \t]+(?:<([^>\n]+)>|"([^"\n]+)"|([^\s<"]\S*))')


class Declaration(NamedTuple):
    """The declared type of one variable.

    ``type`` is "int", "real" or "complex", or for a tuple the declarations of its elements. ``n_dims``
    counts every dimension, of arrays, vectors and matrices alike.
    """

    type: str | tuple[Declaration, ...]
    n_dims: int


@dataclass(frozen=True)
class ProgramInfo:
    """The variables of a Stan program by block, in declared order."""

    inputs: dict[str, Declaration]
    parameters: dict[str, Declaration]
    transformed_parameters: dict[str, Declaration]
    generated_quantities: dict[str, Declaration]


@dataclass(frozen=True)
class StanProgram:
    """A snapshot of a Stan program and of every file that it includes.

    Attributes:
        code: the program's text.
        name: an ASCII C++ identifier made from the file's name.
        path: the file it was read from, or None.
        include_paths: folders searched for included files, in order, before the program's own folder.
        includes: (name as written after ``#include``, text) of each included file that was found.
    """

    code: str
    name: str
    path: Path | None = None
    include_paths: tuple[Path, ...] = ()
    includes: tuple[tuple[str, str], ...] = ()

    @classmethod
    def from_file(
        cls, path: str | PathLike[str], include_paths: Iterable[str | PathLike[str]] = ()
    ) -> StanProgram:
        """Read a program and what it includes.

        Raises:
            FileNotFoundError: there is no such file.
            StanCompileError: the file is not UTF-8 text.
        """
        file = Path(path).expanduser().absolute()
        folders = tuple(Path(folder).expanduser().absolute() for folder in include_paths)
        code = _read(file)
        includes = _read_includes(code, [*folders, file.parent])
        return cls(code, _identifier(file.stem), file, folders, tuple(includes.items()))

    @classmethod
    def from_code(cls, code: str, include_paths: Iterable[str | PathLike[str]] = ()) -> StanProgram:
        """Take a program from its text."""
        folders = tuple(Path(folder).expanduser().absolute() for folder in include_paths)
        return cls(code, "model", None, folders, tuple(_read_includes(code, folders).items()))

    @property
    def file_name(self) -> str:
        """The file's name as the user wrote it, for messages."""
        return self.path.name if self.path else f"{self.name}.stan"

    def content_key(self, *parts: str) -> str:
        """Hash of the program, its included files and ``parts`` (versions, flags): 32 hexadecimal digits."""
        content = json.dumps([self.file_name, self.code, self.includes, parts])
        return hashlib.sha256(content.encode()).hexdigest()[:32]

    def write(self, folder: Path) -> tuple[Path, Path]:
        """Write the snapshot below ``folder``; return the program's file and the folder for --include-paths.

        The include folder is deep enough for an include that begins with ``../``.
        """
        file = folder / f"{self.name}.stan"
        file.write_text(self.code, encoding="utf-8", newline="")
        depth = max((Path(name).parts.count("..") for name, _ in self.includes), default=0)
        root = folder.joinpath("includes", *["up"] * depth)
        root.mkdir(parents=True)
        for name, text in self.includes:
            target = root / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8", newline="")
        return file, root

    def stanc_flags(self, include_root: Path) -> list[str]:
        """The flags that make stanc find the included files and name the user's file in its messages."""
        return [f"--include-paths={include_root}", f"--filename-in-msg={self.file_name}"]

    def info(self, stanc: str | PathLike[str], flags: Sequence[str] = ()) -> ProgramInfo:
        """What ``stanc --info`` says the program declares; remembered in the cache.

        Args:
            stanc: path of the stanc program.
            flags: more flags for stanc, such as ``--allow-undefined``.

        Raises:
            StanCompileError: stanc refuses the program.
        """
        identity = _file_identity(Path(stanc))
        key = self.content_key("stanc --info", identity, *flags)

        def build(folder: Path) -> None:
            text = self.run_stanc(stanc, ["--info", *flags])
            (folder / "info.json").write_text(text, encoding="utf-8")

        folder = build_once(f"info/{key}", build)
        return _parse_info(json.loads((folder / "info.json").read_text(encoding="utf-8")))

    def run_stanc(self, stanc: str | PathLike[str], flags: Sequence[str]) -> str:
        """Run stanc on the program and return what it prints.

        Raises:
            StanCompileError: with stanc's own message, which explains the new array syntax if need be.
        """
        with tempfile.TemporaryDirectory(prefix="dais-stan-") as scratch:
            file, root = self.write(Path(scratch))
            command = [str(stanc), *self.stanc_flags(root), *flags, file.name]
            done = subprocess.run(command, cwd=scratch, capture_output=True, check=False)
            message = done.stderr.decode("utf-8", "replace").strip()
            if done.returncode:
                raise StanCompileError(self.explain(message, root))
            return done.stdout.decode("utf-8")

    def explain(self, message: str, include_root: Path) -> str:
        """stanc's message with the user's own folders in place of the temporary ones."""
        folders = [*self.include_paths, *([self.path.parent] if self.path else [])]
        shown = ", ".join(map(str, folders)) or "none"
        return message.replace(f"{include_root}/", "").replace(str(include_root), shown)


def _read(file: Path) -> str:
    try:
        return file.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise StanCompileError(f"{file} is not UTF-8 text: {error}.") from error


def _read_includes(code: str, folders: Sequence[Path]) -> dict[str, str]:
    """Text of each file included by ``code`` and its includes; stanc names those that are missing."""
    found: dict[str, str] = {}
    to_scan = [code]
    while to_scan:
        for match in _INCLUDE.finditer(to_scan.pop()):
            name = next(group for group in match.groups() if group)
            file = next((folder / name for folder in folders if (folder / name).is_file()), None)
            if name not in found and file is not None:
                found[name] = _read(file)
                to_scan.append(found[name])
    return found


def _identifier(stem: str) -> str:
    """A C++ identifier of ASCII letters close to ``stem``."""
    ascii_stem = unicodedata.normalize("NFKD", stem).encode("ascii", "ignore").decode()
    name = re.sub(r"\W+", "_", ascii_stem).strip("_")
    if not name:
        return "model"
    return name if name[0].isalpha() else f"model_{name}"


def _file_identity(file: Path) -> str:
    """Tells one stanc from another without the cost of starting it."""
    status = file.stat()
    return f"{file} {status.st_size} {status.st_mtime_ns}"


def _parse_info(info: dict[str, Any]) -> ProgramInfo:
    def block(name: str) -> dict[str, Declaration]:
        return {variable: _parse_declaration(entry) for variable, entry in info[name].items()}

    return ProgramInfo(
        block("inputs"), block("parameters"), block("transformed parameters"), block("generated quantities")
    )


def _parse_declaration(entry: dict[str, Any]) -> Declaration:
    kind = entry["type"]
    if isinstance(kind, list):
        return Declaration(tuple(_parse_declaration(element) for element in kind), entry["dimensions"])
    return Declaration(kind, entry["dimensions"])
