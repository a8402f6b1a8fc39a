"""The wheel, not the clone: what it holds, and that it fits a user's own model from an empty folder."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZipFile

import pytest
from conftest import REPOSITORY

from dais_stan import arviz_io

PROGRAM = (
    "data { int N; vector[N] y; } parameters { real mu; } model { y ~ normal(mu, 1); mu ~ std_normal(); }"
)


@dataclass
class Installed:
    """A fresh environment with the wheel in it, and an empty folder to work in."""

    wheel: Path
    bin: Path
    folder: Path

    def run(self, *words: object) -> str:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run(
            [str(self.bin / str(words[0])), *map(str, words[1:])],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    root = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    build = [*pip, "wheel", "--quiet", "--no-deps", "--wheel-dir", str(root), str(REPOSITORY)]
    subprocess.run(build, check=True)
    (wheel,) = root.glob("dais_stan-*.whl")
    venv.create(root / "venv", symlinks=True)
    python = root / "venv" / "bin" / "python"
    find = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = [
        Path(subprocess.run([exe, "-c", find], check=True, capture_output=True, text=True).stdout.strip())
        for exe in (str(python), sys.executable)
    ]
    # What the wheel depends on is taken from the present environment; a folder named in a .pth file is
    # searched, but its own .pth files, and with them the editable clone, are not read.
    (site[0] / "dependencies.pth").write_text(f"{site[1]}\n")
    install = [
        *pip,
        "--python",
        str(python),
        "install",
        "--quiet",
        "--no-deps",
        "--ignore-installed",
        str(wheel),
    ]
    subprocess.run(install, check=True)
    (root / "empty").mkdir()
    return Installed(wheel, root / "venv" / "bin", root / "empty")


def test_only_the_two_packages_are_importable(installed: Installed) -> None:
    names = ZipFile(installed.wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"dais_stan", "infmix"}
    assert "dais_stan/engines/pypi_stan/bridgestan/bridge.cpp" in names
    assert "dais_stan/engines/pypi_stan/cmdstan/main.cpp" in names
    assert "dais_stan/engines/batch.cpp" in names
    assert "dais_stan/py.typed" in names
    assert not [name for name in names if "__pycache__" in name]


@pytest.mark.parametrize("folder", ["stan_models", "posteriordb_refs"])
def test_shipped_data_is_found_in_the_wheel(installed: Installed, folder: str) -> None:
    code = f"import dais_stan.resources as r; print(*sorted(r.{folder}().rglob('*')), sep='\\n')"
    found = [Path(line) for line in installed.run("python", "-c", code).splitlines()]
    assert found and all(installed.bin.parent in file.parents for file in found)
    in_clone = {file.name for file in (REPOSITORY / folder).rglob("*.*") if "__pycache__" not in file.parts}
    assert in_clone <= {file.name for file in found}


def test_the_wheel_fits_a_users_own_model(installed: Installed, tmp_path: Path) -> None:
    (installed.folder / "mine.stan").write_text(PROGRAM)
    (installed.folder / "mine.json").write_text('{"N": 2, "y": [1.0, 2.0]}')
    out = installed.run(
        "dais-stan", "fit", "mine.stan", "--data", "mine.json", "--seed", 1, "--out", "fit.nc"
    )
    assert "No trouble found" in out
    posterior = arviz_io.read(installed.folder / "fit.nc")["posterior"]
    assert float(posterior["mu"].mean()) == pytest.approx(1.0, abs=0.05)
    assert sorted(file.name for file in installed.folder.iterdir()) == ["fit.nc", "mine.json", "mine.stan"]
