"""The cache: built once, whole or not at all, wherever it stands."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dais_stan.engines.cache import build_once, cache_dir

SLOW_BUILD = """
import sys, time
from pathlib import Path
from dais_stan.engines.cache import build_once

def build(folder):
    with open(sys.argv[1], "a") as log:
        log.write("built ")
    (folder / "half").write_text("half")
    time.sleep(float(sys.argv[2]))
    (folder / "whole").write_text("whole")

print(sorted(file.name for file in build_once("things/slow", build).iterdir()))
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "a cäche with spaces"
    monkeypatch.setenv("DAIS_STAN_CACHE", str(folder))
    return folder


def start_slow_build(log: Path, seconds: float) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SLOW_BUILD, str(log), str(seconds)], stdout=subprocess.PIPE, text=True
    )


def test_environment_chooses_the_folder(cache: Path) -> None:
    assert cache_dir() == cache
    assert cache.is_dir()


def test_builds_in_a_path_that_make_can_handle_and_only_once(cache: Path) -> None:
    places = []

    def build(folder: Path) -> None:
        places.append(str(folder))
        (folder / "made").write_text("once")

    first = build_once("kind/key", build)
    assert build_once("kind/key", build) == first == cache / "kind" / "key"
    assert (first / "made").read_text() == "once"
    assert len(places) == 1 and places[0].isascii() and " " not in places[0]
    assert not Path(places[0]).exists()


def test_a_failed_build_leaves_nothing_and_can_be_tried_again(cache: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").write_text("half")
        raise RuntimeError("compiler trouble")

    with pytest.raises(RuntimeError, match="compiler trouble"):
        build_once("key", fail)
    assert not (cache / "key").exists()
    assert list(build_once("key", lambda folder: None).iterdir()) == []


def test_two_processes_build_once(cache: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    processes = [start_slow_build(log, 1.0) for _ in range(2)]
    assert {process.communicate(timeout=60)[0].strip() for process in processes} == {"['half', 'whole']"}
    assert log.read_text() == "built "


def test_a_killed_build_leaves_nothing_half_made(cache: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = start_slow_build(log, 60.0)
    while not log.exists():
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert not (cache / "things" / "slow").exists()
    output, _ = start_slow_build(log, 0.0).communicate(timeout=60)
    assert output.strip() == "['half', 'whole']"
