"""Which engine is chosen, and what each says when it cannot serve."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from dais_stan.engines import find_engine
from dais_stan.engines.program import StanProgram
from dais_stan.engines.pypi_stan import layout
from dais_stan.errors import EngineError, StanCompileError, TargetError

NORMAL = "data { real m; } parameters { real x; } model { x ~ normal(m, 1); }"


def test_unknown_engine_is_named() -> None:
    with pytest.raises(ValueError, match="not 'jax'"):
        find_engine("jax")


def test_without_bridgestan_stan_comes_from_pypi(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("BRIDGESTAN", raising=False)
    monkeypatch.setattr("dais_stan.engines.bridgestan.HOME_BRIDGESTAN", tmp_path / "absent")
    engine = find_engine()
    assert engine.name == "pypi" and engine.normalized
    assert engine.stan_version == layout.stan_version()
    with pytest.raises(EngineError, match="set BRIDGESTAN to its folder"):
        find_engine("bridgestan")


def test_newest_bridgestan_in_the_default_folder_wins(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for version in ("2.9.0", "2.10.1"):
        (tmp_path / f"bridgestan-{version}").mkdir()
        (tmp_path / f"bridgestan-{version}" / "Makefile").touch()
    monkeypatch.delenv("BRIDGESTAN", raising=False)
    monkeypatch.setattr("dais_stan.engines.bridgestan.HOME_BRIDGESTAN", tmp_path)
    engine = find_engine()
    assert engine.name == "bridgestan"
    with pytest.raises(EngineError, match=r"bridgestan-2\.10\.1 is not a complete BridgeStan"):
        _ = engine.stan_version


def test_bridgestan_that_is_not_one_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BRIDGESTAN", str(tmp_path))
    with pytest.raises(EngineError, match="not a BridgeStan folder"):
        find_engine()


def test_without_the_wheel_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "httpstan" else found(name))
    with pytest.raises(EngineError, match=r"pip install httpstan.*BRIDGESTAN and CMDSTAN"):
        find_engine("pypi")


def test_stanli_evaluates_but_drops_constants() -> None:
    engine = find_engine("stanli")
    assert not engine.normalized
    model = engine.open(StanProgram.from_code(NORMAL), '{"m": 2}', seed=1)
    value, gradient = model.log_density_gradient(np.array([0.5]))
    assert (value, gradient[0]) == (-1.125, 1.5)


def test_stanli_reports_like_the_others() -> None:
    engine = find_engine("stanli")
    with pytest.raises(StanCompileError, match=r"array\[2\] real x;"):
        engine.open(StanProgram.from_code("parameters { real x[2]; }"), "", seed=1)
    with pytest.raises(TargetError, match=r"^model.stan: "):
        engine.open(StanProgram.from_code(NORMAL), "{}", seed=1)
    with pytest.raises(ValueError, match="autodiff_hessian"):
        find_engine("stanli", autodiff_hessian=True)
