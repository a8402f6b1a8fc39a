"""Folders shaped like BridgeStan and CmdStan, laid out in the cache over the httpstan wheel.

The wheel brings stanc, the headers of Stan and Stan Math, TBB and SUNDIALS; the folders ``bridgestan`` and
``cmdstan`` beside this file bring the makefiles and the C++ that the wheel lacks, ``common`` what both need.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import platform
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from dais_stan.engines.cache import build_once
from dais_stan.errors import EngineError

_TEMPLATES = Path(__file__).parent


def httpstan_folder() -> Path:
    """Folder of the installed httpstan package, found without importing it.

    Raises:
        EngineError: it is not installed, or has no compiled parts.
    """
    spec = importlib.util.find_spec("httpstan")
    folder = Path(spec.origin).parent if spec and spec.origin else None
    if folder and (folder / "stanc").is_file() and (folder / "include" / "stan").is_dir():
        return folder
    raise EngineError(
        f"no Stan was found: the httpstan package, which brings it, is not installed for Python "
        f"{platform.python_version()} on {platform.system()} {platform.machine()}. Where it has a wheel "
        "(Linux x86-64, macOS) run `pip install httpstan`; elsewhere install BridgeStan and CmdStan and set "
        "BRIDGESTAN and CMDSTAN to their folders."
    )


def stan_version() -> str:
    """Version of Stan in the httpstan wheel, such as "2.35.0".

    Raises:
        EngineError: httpstan is not installed.
    """
    return read_stan_version(httpstan_folder() / "include" / "stan" / "version.hpp")


def read_stan_version(header: Path) -> str:
    """The version that Stan's ``stan/version.hpp`` defines."""
    text = header.read_text(encoding="utf-8")
    numbers = [re.search(rf"#define STAN_{part} (\d+)", text) for part in ("MAJOR", "MINOR", "PATCH")]
    return ".".join(number.group(1) for number in numbers if number)


def bridgestan_home() -> Path:
    """The folder that serves as ``BRIDGESTAN``, made on first use.

    Raises:
        EngineError: httpstan is not installed.
    """
    return _lay_out("bridgestan")


def cmdstan_home() -> Path:
    """The folder that serves as ``CMDSTAN``, made on first use.

    Raises:
        EngineError: httpstan is not installed.
    """
    return _lay_out("cmdstan")


def _lay_out(kind: str) -> Path:
    """Copy the templates of ``kind`` and link the wheel, in a folder keyed by the content of both."""
    httpstan = httpstan_folder()
    wheel = f"{stan_version()}-{_digest([str(httpstan), importlib.metadata.version('httpstan')])}"
    headers = build_once(f"headers/{wheel}", lambda folder: None)
    roots = (_TEMPLATES / "common", _TEMPLATES / kind)
    files = {file.relative_to(root): file for root in roots for file in root.rglob("*") if _is_template(file)}

    def build(folder: Path) -> None:
        (folder / "httpstan").symlink_to(httpstan)
        (folder / "headers").symlink_to(f"../../headers/{headers.name}")
        (folder / "bin").mkdir()
        (folder / "bin" / "stanc").symlink_to("../httpstan/stanc")
        for name, file in files.items():
            _copy_template(file, folder / name, httpstan)

    content = _digest(f"{name}\n{file.read_text(encoding='utf-8')}" for name, file in sorted(files.items()))
    return build_once(f"homes/{kind}-{wheel}-{content}", build)


def _digest(parts: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def _is_template(file: Path) -> bool:
    return file.is_file() and "__pycache__" not in file.parts and file.name != "__init__.py"


def _copy_template(file: Path, target: Path, httpstan: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if file.suffix != ".in":
        shutil.copy(file, target)
        return
    text = file.read_text(encoding="utf-8")
    text = text.replace("@STAN_VERSION@", stan_version()).replace("@HTTPSTAN@", str(httpstan))
    target.with_suffix("").write_text(text, encoding="utf-8")
    shutil.copymode(file, target.with_suffix(""))
