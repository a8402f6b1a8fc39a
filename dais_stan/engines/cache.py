"""A folder for each compiled thing, made once, shared by processes, and never seen half-made."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import platformdirs
from filelock import FileLock

_log = logging.getLogger("dais_stan")


def cache_dir() -> Path:
    """Folder of everything compiled: ``DAIS_STAN_CACHE``, or the user's cache folder; made if missing.

    Raises:
        OSError: the folder cannot be made.
    """
    chosen = os.environ.get("DAIS_STAN_CACHE")
    folder = (
        Path(chosen).expanduser().absolute() if chosen else Path(platformdirs.user_cache_dir("dais-stan"))
    )
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def lock(key: str) -> FileLock:
    """The lock between processes (and threads) for ``key``; released by the system when a process dies."""
    folder = cache_dir() / "locks"
    folder.mkdir(exist_ok=True)
    return FileLock(folder / f"{key.replace('/', '-')}.lock", thread_local=False)


def scratch_root() -> str:
    """A temporary folder whose path has neither spaces nor non-ASCII letters, since make splits on spaces."""
    root = tempfile.gettempdir()
    return root if root.isascii() and not any(c.isspace() for c in root) else "/tmp"


def build_once(key: str, build: Callable[[Path], None]) -> Path:
    """Return the folder of ``key``, calling ``build`` to fill it if it does not exist yet.

    ``build`` gets an empty temporary folder, whose path make can handle. Only a finished folder is moved
    into the cache, in one rename, so an interrupted or failed build leaves nothing that looks done. Two
    processes that want the same key build it once: the second waits.

    Args:
        key: the folder's path below the cache; it covers everything that the result depends on.
        build: fills the folder, or raises.
    """
    folder = cache_dir() / key
    if folder.is_dir():
        return folder
    with lock(key):
        if folder.is_dir():
            return folder
        _log.debug("building %s", key)
        with tempfile.TemporaryDirectory(prefix="dais-stan-", dir=scratch_root()) as scratch:
            made = Path(scratch) / "build"
            made.mkdir()
            build(made)
            # The temporary folder may be on another file system, where a move is a copy and so not atomic.
            folder.parent.mkdir(parents=True, exist_ok=True)
            partial = folder.with_name(f"{folder.name}.partial")
            shutil.rmtree(partial, ignore_errors=True)
            shutil.move(made, partial)
            partial.rename(folder)
    return folder
