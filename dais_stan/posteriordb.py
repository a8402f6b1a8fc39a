"""Posteriors with a reference: programs, data and trusted moments, shipped or from a clone of posteriordb.

A posterior is called DATA-MODEL, as posteriordb calls it. Its program is ours where we have one (with
posteriordb's names of variables) and the clone's otherwise; its data and reference are the folder's where one
is given, and those shipped otherwise. Nothing is fetched from anywhere.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from . import resources
from .target import Target

#: posteriordb has one set of reference draws for both forms of eight schools.
SAME_POSTERIOR = {"eight_schools-eight_schools_centered": "eight_schools-eight_schools_noncentered"}
#: The environment variable by which the posteriordb package, too, finds the user's clone.
PATH_VARIABLE = "POSTERIOR_DB_PATH"


@dataclass(frozen=True)
class Reference:
    """Trusted moments of scalars, in the constrained space, each array in the order of ``names``.

    ``mean``, ``sd`` and the Monte Carlo standard error of the mean ``mcse``, shape (d,); ``draws`` (n, d)
    where the source has some. ``source`` says where they are from. ``nuts`` is what a default run of NUTS
    cost and how near it came, where that was measured.
    """

    names: tuple[str, ...]
    mean: NDArray
    sd: NDArray
    mcse: NDArray
    source: str
    draws: NDArray | None = field(default=None, repr=False)
    nuts: dict[str, Any] | None = None


@dataclass(frozen=True)
class Posterior:
    """A program (a path, or its code where it comes from a clone), its data, and its reference."""

    name: str
    program: Path | str
    data: dict[str, Any] = field(repr=False)
    reference: Reference | None

    def target(self, engine: str = "auto") -> Target:
        """The log density, opened by ``engine`` and compiled where it has not been before."""
        if isinstance(self.program, Path):
            return Target.from_stan(self.program, data=self.data, engine=engine)
        return Target.from_stan(stan_code=self.program, data=self.data, engine=engine)


class Folder(Protocol):
    """Where data and references come from. Each method returns None for what the folder lacks."""

    def names(self) -> list[str]:
        """Posteriors that the folder knows."""

    def program(self, name: str) -> str | None:
        """Stan code of a posterior's program."""

    def data(self, name: str) -> dict[str, Any] | None:
        """Data of a posterior."""

    def reference(self, name: str) -> Reference | None:
        """Reference of a posterior."""


def open_folder(path: str | os.PathLike[str] | None) -> Folder:
    """The user's folder, or that named by POSTERIOR_DB_PATH, or what is shipped.

    A folder is a clone of posteriordb (or its ``posterior_database``), read by the ``posteriordb`` package,
    or an extract of it: ``data/DATA.json``, ``summary/NAME.json`` and, if wanted, ``draws/NAME.npz``.
    Raises ValueError where it is neither.
    """
    path = path or os.environ.get(PATH_VARIABLE)
    if path is None:
        return Shipped()
    root = Path(path).expanduser()
    if (root / "posterior_database").is_dir():
        root = root / "posterior_database"
    if (root / "posteriors").is_dir():
        return Clone(root)
    if (root / "summary").is_dir():
        return Extract(root)
    raise ValueError(
        f"{path} is no clone of posteriordb (no folder posteriors) and no extract of it (no folder summary)"
    )


def find(name: str, folder: Folder) -> Posterior:
    """The posterior of this name. Raises ValueError where its program or data are missing."""
    program = own_program(name) or folder.program(name)
    data = folder.data(name) or Shipped().data(name)
    if program is None or data is None:
        lack = "program" if program is None else "data"
        raise ValueError(
            f"posterior {name!r} has no {lack} here; name a clone of posteriordb by --posteriordb PATH or "
            f"{PATH_VARIABLE} (without one there are {', '.join(available(Shipped()))})"
        )
    return Posterior(name, program, data, folder.reference(name) or Shipped().reference(name))


def available(folder: Folder) -> list[str]:
    """Posteriors with one of our own programs, data and a reference, in alphabetical order."""
    shipped = Shipped()
    known = {*folder.names(), *shipped.names()}
    return sorted(
        name
        for name in known
        if own_program(name)
        and (folder.data(name) or shipped.data(name))
        and (folder.reference(name) or shipped.reference(name))
    )


def own_program(name: str) -> Path | None:
    """Our program of a posterior."""
    file = f"{name.rsplit('-', 1)[-1]}.stan"
    models = resources.stan_models()
    return next((path for path in (models / "posteriordb" / file, models / file) if path.is_file()), None)


class Shipped:
    """What comes with dais-stan: data that posteriordb simulated, eight schools, and our references."""

    def names(self) -> list[str]:
        found = {path.stem for path in resources.posteriordb_refs().glob("*-*.json")}
        return sorted(found | {name for name, other in SAME_POSTERIOR.items() if other in found})

    def program(self, name: str) -> str | None:
        return None

    def data(self, name: str) -> dict[str, Any] | None:
        models, file = resources.stan_models(), name.rsplit("-", 1)[0]
        places = (models / "posteriordb" / "data" / f"{file}.json", models / f"{file}_noncentered.data.json")
        return next((_read(path) for path in places if path.is_file()), None)

    def reference(self, name: str) -> Reference | None:
        path = resources.posteriordb_refs() / f"{SAME_POSTERIOR.get(name, name)}.json"
        if not path.is_file():
            return None
        record = _read(path)
        return Reference(
            tuple(record["parameter_names"]),
            *_moments(record),
            source="dais-stan",
            nuts=record["default_nuts"] if name not in SAME_POSTERIOR else None,
        )


class Extract:
    """A folder of data, summaries and thinned draws taken from posteriordb."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def names(self) -> list[str]:
        found = {path.stem for path in (self._root / "summary").glob("*.json")}
        return sorted(found | {name for name, other in SAME_POSTERIOR.items() if other in found})

    def program(self, name: str) -> str | None:
        return None

    def data(self, name: str) -> dict[str, Any] | None:
        path = self._root / "data" / f"{name.rsplit('-', 1)[0]}.json"
        return _read(path) if path.is_file() else None

    def reference(self, name: str) -> Reference | None:
        name = SAME_POSTERIOR.get(name, name)
        summary, stored = self._root / "summary" / f"{name}.json", self._root / "draws" / f"{name}.npz"
        if not summary.is_file():
            return None
        record = _read(summary)
        names = tuple(record["parameter_names"])
        draws = None
        if stored.is_file():
            with np.load(stored) as file:
                order = [list(file["names"]).index(scalar) for scalar in names]
                draws = file["draws"][:, order].astype(float)
        return Reference(names, *_moments(record), source="posteriordb", draws=draws)


class Clone:
    """A clone of posteriordb, read by its own Python package (the extra ``posteriordb``)."""

    def __init__(self, root: Path) -> None:
        try:
            from posteriordb import PosteriorDatabase
        except ImportError as error:
            raise ValueError(
                "reading a clone of posteriordb needs its package: pip install 'dais-stan[posteriordb]'"
            ) from error
        self._database = PosteriorDatabase(str(root))
        self._known = frozenset(self._database.posterior_names())

    def names(self) -> list[str]:
        return sorted(self._known)

    def program(self, name: str) -> str | None:
        return self._database.posterior(name).model.stan_code() if name in self._known else None

    def data(self, name: str) -> dict[str, Any] | None:
        try:
            return self._database.posterior(name).data.values() if name in self._known else None
        except FileNotFoundError:
            return None

    def reference(self, name: str) -> Reference | None:
        if name not in self._known or not self._database.get_posterior_info(name)["reference_posterior_name"]:
            return None
        try:
            chains = self._database.posterior(name).reference_draws()
        except FileNotFoundError:
            return None
        names = tuple(chains[0])
        draws = np.array([[chain[scalar] for scalar in names] for chain in chains])  # (chain, scalar, draw)
        draws = draws.transpose(0, 2, 1).reshape(-1, len(names))
        sd = draws.std(axis=0, ddof=1)
        # posteriordb's draws are thinned until they are nearly independent.
        return Reference(names, draws.mean(axis=0), sd, sd / np.sqrt(len(draws)), "posteriordb", draws)


def _moments(record: dict[str, Any]) -> tuple[NDArray, NDArray, NDArray]:
    return np.array(record["mean"]), np.array(record["sd"]), np.array(record["mcse_mean"])


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))
