"""The Makefile's targets run what they say."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
@pytest.mark.parametrize(
    ("target", "command"),
    [
        ("demo", "dais-stan compare"),
        ("test", "-m pytest"),
        ("lint", "mypy"),
        ("bench", "dais-stan report bench"),
        ("studies STUDIES=theorem_4_1", "for study in theorem_4_1; do"),
    ],
)
def test_a_target_runs_its_command_and_makes_its_environment(target, command, tmp_path):
    call = ["make", "--dry-run", *target.split(), f"VENV={tmp_path / 'venv'}"]
    said = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert command in said
    assert "pip install" in said
