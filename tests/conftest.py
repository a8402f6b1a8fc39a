"""Fixtures that several test files use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder of reference posteriors and hard cases: DAIS_STAN_SHARED, or `shared` beside the repository."""
    folder = Path(os.environ.get("DAIS_STAN_SHARED", REPOSITORY.parent / "shared"))
    if not folder.is_dir():
        pytest.skip(f"needs the folder of reference data {folder}; name yours in DAIS_STAN_SHARED")
    return folder
