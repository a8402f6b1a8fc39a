"""Where posteriors come from: shipped, an extract, a clone read by the posteriordb package."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from dais_stan.bench.run import QUICK
from dais_stan.posteriordb import Clone, available, find, open_folder, own_program
from dais_stan.target import Target


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone of one posterior, in posteriordb's own layout; its program is none of ours."""
    root = tmp_path / "posteriordb" / "posterior_database"

    def put(name: str, record: object) -> None:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(record))

    def put_zip(name: str, record: object) -> None:
        path = root / f"{name}.zip"
        path.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(path, "w") as file:
            file.writestr(Path(name).name, json.dumps(record))

    put(
        "posteriors/coins-coin.json",
        {
            "name": "coins-coin",
            "model_name": "coin",
            "data_name": "coins",
            "reference_posterior_name": "coins-coin",
        },
    )
    put(
        "models/info/coin.info.json",
        {"name": "coin", "model_implementations": {"stan": {"model_code": "models/stan/coin.stan"}}},
    )
    (root / "models/stan").mkdir()
    (root / "models/stan/coin.stan").write_text(
        "data { int n; int y; } parameters { real<lower=0, upper=1> p; } model { y ~ binomial(n, p); }"
    )
    put("data/info/coins.info.json", {"name": "coins", "data_file": "data/data/coins.json"})
    put_zip("data/data/coins.json", {"n": 10, "y": 3})
    draws = np.random.default_rng(1).beta(4, 8, (2, 500))
    put_zip("reference_posteriors/draws/draws/coins-coin.json", [{"p": list(chain)} for chain in draws])
    put("reference_posteriors/draws/info/coins-coin.info.json", {"name": "coins-coin"})
    return root.parent


def test_a_clone_gives_program_data_and_reference(clone: Path) -> None:
    pytest.importorskip("posteriordb")
    posterior = find("coins-coin", open_folder(clone))
    assert posterior.data == {"n": 10, "y": 3}
    reference = posterior.reference
    assert reference is not None and reference.draws is not None
    assert reference.names == ("p",) and reference.draws.shape == (1000, 1)
    assert reference.mean[0] == pytest.approx(1 / 3, abs=0.02)
    target = posterior.target("stanli")
    assert isinstance(target, Target) and target.dim == 1


def test_our_own_program_wins_over_the_clones(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("posteriordb")
    monkeypatch.setenv("POSTERIOR_DB_PATH", str(clone))
    folder = open_folder(None)
    assert isinstance(folder, Clone)
    assert find("sblri-blr", folder).program == own_program("sblri-blr")


def test_what_is_shipped_serves_the_quick_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("POSTERIOR_DB_PATH", raising=False)
    shipped = open_folder(None)
    for name in QUICK:
        posterior = find(name, shipped)
        assert posterior.data and posterior.reference is not None, name
    assert set(QUICK) <= set(available(shipped))


def test_an_extract_is_read(shared: Path) -> None:
    folder = open_folder(shared / "posteriordb")
    posterior = find("eight_schools-eight_schools_centered", folder)
    reference = posterior.reference
    assert reference is not None and reference.source == "posteriordb" and reference.draws is not None
    assert (
        np.abs(reference.draws.mean(axis=0) - reference.mean).max() < 4 * (reference.sd / np.sqrt(1000)).max()
    )
    assert "kidiq-kidscore_momiq" in available(folder)


def test_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("POSTERIOR_DB_PATH", raising=False)
    with pytest.raises(ValueError, match="'mnist-nn' has no program here"):
        find("mnist-nn", open_folder(None))
    with pytest.raises(ValueError, match="is no clone of posteriordb"):
        open_folder(tmp_path)
