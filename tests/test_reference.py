"""Our reference posteriors: made to the standard that they claim, and in agreement with posteriordb's."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from dais_stan import resources
from dais_stan.nuts import BFMI_LIMIT, RHAT_LIMIT
from dais_stan.posteriordb import Posterior, find, open_folder, own_program
from dais_stan.reference import INDEPENDENT, make_reference

NAMES = sorted(path.stem for path in resources.posteriordb_refs().glob("*-*.json"))


def record(name: str) -> dict:
    return json.loads((resources.posteriordb_refs() / f"{name}.json").read_text())


def test_there_are_twenty() -> None:
    assert len(NAMES) >= 20


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_reference_meets_the_standard(name: str) -> None:
    entry = record(name)
    scalars = len(entry["parameter_names"])
    columns = ["mean", "sd", "mcse_mean", "mcse_sd", "ess_bulk", "rhat", "q05", "q50", "q95"]
    for column in columns:
        assert len(entry[column]) == scalars and np.isfinite(entry[column]).all(), column
    settings = entry["sampler"]
    assert settings["chains"] == 10 and settings["thin"] >= 10 and settings["draws_per_chain"] == 1000
    assert max(entry["rhat"]) < RHAT_LIMIT
    assert min(entry["ess_bulk"]) >= INDEPENDENT * 10 * 1000
    assert entry["diagnostics"]["divergences"] == 0
    assert entry["diagnostics"]["least_bfmi"] >= BFMI_LIMIT
    assert (np.array(entry["q05"]) < entry["q50"]).all() and (np.array(entry["q50"]) < entry["q95"]).all()
    np.testing.assert_allclose(
        entry["mcse_mean"], np.array(entry["sd"]) / np.sqrt(entry["ess_bulk"]), rtol=0.2
    )
    assert entry["name"] == name and own_program(name) is not None
    assert entry["default_nuts"]["gradient_evaluations"] > 1000


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_reference_agrees_with_posteriordbs(shared: Path, name: str) -> None:
    """Every mean within four combined Monte Carlo standard errors."""
    path = shared / "posteriordb" / "summary" / f"{name}.json"
    if not path.is_file():
        pytest.skip(f"the folder of reference data has no summary of {name}")
    ours, theirs = record(name), json.loads(path.read_text())
    index = [ours["parameter_names"].index(scalar) for scalar in theirs["parameter_names"]]
    gap = np.array(ours["mean"])[index] - theirs["mean"]
    noise = np.hypot(np.array(ours["mcse_mean"])[index], theirs["mcse_mean"])
    assert np.abs(gap / noise).max() < 4
    np.testing.assert_allclose(np.array(ours["sd"])[index], theirs["sd"], rtol=0.12)


def test_a_reference_of_a_known_posterior_is_right() -> None:
    """beta(4, 8): mean 1/3, variance 4 * 8 / (12^2 * 13)."""
    code = "parameters { real<lower=0, upper=1> p; } model { p ~ beta(4, 8); }"
    entry = make_reference(Posterior("none-beta", code, {}, None), seed=3, engine="stanli")
    assert entry["parameter_names"] == ["p"]
    assert abs(entry["mean"][0] - 1 / 3) < 4 * entry["mcse_mean"][0]
    assert abs(entry["sd"][0] - np.sqrt(32 / (144 * 13))) < 4 * entry["mcse_sd"][0]
    assert entry["default_nuts"]["worst_mean_error"] < 0.15


def test_the_shipped_data_is_that_of_the_references() -> None:
    """A reference says which data it is of; shipped data must be it."""
    for name in NAMES:
        try:
            posterior = find(name, open_folder(None))
        except ValueError:
            continue  # its data is not shipped
        text = json.dumps(posterior.data, sort_keys=True)
        assert record(name)["data_sha256"] == hashlib.sha256(text.encode()).hexdigest(), name
