"""Fixtures that several test files use."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from dais_stan.families import FullRank, MeanField

REPOSITORY = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder of reference posteriors and hard cases: DAIS_STAN_SHARED, or `shared` beside the repository."""
    folder = Path(os.environ.get("DAIS_STAN_SHARED", REPOSITORY.parent / "shared"))
    if not folder.is_dir():
        pytest.skip(f"needs the folder of reference data {folder}; name yours in DAIS_STAN_SHARED")
    return folder


@pytest.fixture(params=[MeanField, FullRank])
def family(request: pytest.FixtureRequest) -> MeanField | FullRank:
    """Each Gaussian family in three dimensions."""
    return request.param(3)


@pytest.fixture
def params(family: MeanField | FullRank) -> NDArray:
    """Parameters of ``family`` away from its start."""
    return 0.4 * np.random.default_rng(11).standard_normal(family.n_params)


@pytest.fixture
def quiet() -> Iterator[None]:
    """Warnings of a fit that is not to be trusted are looked at through Fit.warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


@dataclass
class CliRun:
    """What one call of the command line left."""

    code: int
    out: str
    err: str


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., CliRun]:
    """Call the command line through its entry point in this process, which has ArviZ imported already."""
    from dais_stan.cli import main

    def call(*arguments: object) -> CliRun:
        monkeypatch.setattr(sys, "argv", ["dais-stan", *map(str, arguments)])
        code = 0
        with warnings.catch_warnings():  # the entry point shows warnings in its own way
            warnings.simplefilter("default")
            capfd.readouterr()
            try:
                main()
            except SystemExit as stop:
                code = int(stop.code or 0)
        return CliRun(code, *capfd.readouterr())

    return call
