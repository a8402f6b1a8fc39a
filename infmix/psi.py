"""psi(theta), the density of a component's parameters: its Stan program, its data, and a run of it.

Lange et al. (2022), equation 10: log psi(theta) = log|F(theta)| / 2 - lambda KL(q_theta || p) + constant,
which with the entropy of a Gaussian written out is

    log psi = log|F| / 2 + lambda (log|scale| + E[l(location + scale node)]) + constant,

where the expectation is a mean over nodes, so that NUTS sees a smooth deterministic density.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from cmdstanpy import CmdStanModel
from numpy.typing import NDArray

from dais_stan.engines.cmdstan import cmdstan_model
from dais_stan.engines.nuts import NutsRun, run_nuts
from dais_stan.engines.program import StanProgram
from dais_stan.errors import TargetError
from dais_stan.resources import stan_models
from dais_stan.target import Library, Target

from .components import Components

#: Beyond these log standard deviations psi falls off by a nat for each unit (Lange et al.'s program).
OMEGA_MIN, OMEGA_MAX = -46.0, 46.0
#: At lambda = 1 a component's standard deviation is between e^-12 and e^-7 of the posterior's: a point.
POINT_OMEGA = (-12.0, -7.0)
#: Starts are drawn in by half until every node has a finite log density, at most as often.
_START_TRIES = 20

HEADER = Path(__file__).with_name("target_bridge.hpp")


@dataclass(frozen=True)
class Kind:
    """A family of components: psi's program, and how its variables describe a component.

    ``scale_name`` is the program's variable beside mu: "omega", log standard deviations (T, D) or (T,), or
    "L", lower-triangular factors (T, D, D).
    """

    name: str
    scale_name: str

    def compiled(self) -> CmdStanModel:
        """psi's program, the same for every target; compiled where it has not been before."""
        program = StanProgram.from_file(stan_models() / f"psi_{self.name}.stan")
        return cmdstan_model(program, HEADER)

    def components(self, theta: Mapping[str, NDArray]) -> Components:
        """The components with parameters ``theta``, each (T, ...)."""
        mu, spread = theta["mu"], theta[self.scale_name]
        if self.scale_name == "L":
            return Components(mu, spread)
        return Components(mu, np.broadcast_to(np.exp(spread.reshape(len(mu), -1)), mu.shape).copy())

    def half_log_fisher(self, theta: Mapping[str, NDArray]) -> NDArray:
        """log|F| / 2 with respect to mu and omega, or mu and the entries of L; (T,)."""
        dim = theta["mu"].shape[1]
        if self.name == "isotropic":
            return 0.5 * np.log(2.0 * dim) - dim * theta["omega"]
        if self.name == "meanfield":
            return 0.5 * dim * np.log(2.0) - theta["omega"].sum(axis=1)
        omega = np.log(np.diagonal(theta["L"], axis1=1, axis2=2))
        return 0.5 * dim * np.log(2.0) - omega @ np.arange(2, dim + 2)

    def check_lambda(self, lam: float, dim: int) -> None:
        """Raise ValueError where psi could not be normalised."""
        if not np.isfinite(lam) or lam < 1.0:
            raise ValueError(f"lam must be at least 1 (sampling), found {lam}")
        if self.name == "fullrank" and lam <= dim:
            raise ValueError(
                f"lam must be above D = {dim} for components 'fullrank', found {lam}: below that psi puts "
                "all its mass on singular covariances; use components 'meanfield'"
            )

    def _shape(self, values: NDArray) -> Any:
        """A vector (D,) as psi's program wants its scales: for one scale in all, the mean."""
        return float(values.mean()) if self.name == "isotropic" else values.tolist()


KINDS = {
    "meanfield": Kind("meanfield", "omega"),
    "isotropic": Kind("isotropic", "omega"),
    "fullrank": Kind("fullrank", "L"),
}


@dataclass(frozen=True)
class Guess:
    """Where the posterior is and how wide: mean (D,) and standard deviations (D,) of a mean-field fit."""

    mean: NDArray
    sd: NDArray


@dataclass(frozen=True)
class PsiRun:
    """A NUTS run of psi, and what it asked of the target."""

    nuts: NutsRun
    evaluations: int
    rejected: int
    last_rejection: str


@dataclass(frozen=True)
class Psi:
    """The density psi for one target, kind of components, lambda and set of nodes (M, D).

    ``fresh`` draws plain normal nodes anew for each NUTS transition in place of ``nodes``, as the authors do.
    """

    target: Target
    kind: Kind
    lam: float
    nodes: NDArray
    omega_min: NDArray
    omega_max: NDArray
    fresh: bool = False

    def expected_log_density(self, components: Components, nodes: NDArray | None = None) -> NDArray:
        """Mean of the target's log density over each component's nodes, (T,); -inf where a node has none."""
        points = components.place(self.nodes if nodes is None else nodes)
        values = self.target.log_density(points.reshape(-1, self.target.dim))
        return values.reshape(points.shape[:2]).mean(axis=1)

    def log_density(self, theta: Mapping[str, NDArray]) -> NDArray:
        """log psi at each theta, up to a constant, without the limits on omega; (T,)."""
        components = self.kind.components(theta)
        value = components.log_det + self.expected_log_density(components)
        return self.kind.half_log_fisher(theta) + self.lam * value

    def sample(self, guess: Guess, chains: int, seed: int, settings: Mapping[str, Any]) -> PsiRun:
        """CmdStan's NUTS on psi, with a diagonal metric that starts at the guess's variances over lambda.

        ``settings`` are arguments of CmdStanPy's ``CmdStanModel.sample``, iter_warmup and iter_sampling among
        them.
        """
        model = self.kind.compiled()
        rng = np.random.default_rng(np.random.SeedSequence(seed).spawn(1)[0])
        options = {
            "inits": [self._start(guess, rng) for _ in range(chains)],
            "metric": {"inv_metric": self._metric(guess)},
            **settings,
        }
        lengths = {name: options.pop(name) for name in ("iter_warmup", "iter_sampling")}
        with tempfile.TemporaryDirectory(prefix="infmix-") as scratch:
            data = json.dumps(self._data(Path(scratch)))
            run = run_nuts(model, data, chains=chains, seed=seed, options=options, **lengths)
            return PsiRun(run, *_read_reports(Path(scratch)))

    def _data(self, scratch: Path) -> dict[str, Any]:
        library = library_of(self.target)
        data_file = scratch / "target.json"
        data_file.write_text(library.data or "{}", encoding="utf-8")
        flags = (library.propto, library.thread_safe, self.fresh)
        lines = [library.path, str(data_file), str(scratch / "report"), f"{library.seed} "]
        description = "\n".join(lines) + " ".join(str(int(flag)) for flag in flags) + "\n"
        return {
            "D": self.target.dim,
            "M": len(self.nodes),
            "nodes": self.nodes.T.tolist(),
            "lambda": self.lam,
            "omega_min": self.kind._shape(self.omega_min),
            "omega_max": self.kind._shape(self.omega_max),
            "B": len(description.encode()),
            "description": list(description.encode()),
        }

    def _start(self, guess: Guess, rng: np.random.Generator) -> dict[str, Any]:
        """Where a chain starts: about the guess as psi of a Gaussian is, drawn in where needed."""
        step = guess.sd * rng.standard_normal(len(guess.sd)) / np.sqrt(self.lam)
        for shrink in 0.5 ** np.arange(_START_TRIES):
            mu = guess.mean + shrink * step
            omega = np.clip(np.log(shrink * guess.sd), self.omega_min, self.omega_max)
            if np.isfinite(self.expected_log_density(Components(mu[None], np.exp(omega)[None]))[0]):
                break
        if self.kind.scale_name == "L":
            return {"mu": mu.tolist(), "L": np.diag(np.exp(omega)).tolist()}
        return {"mu": mu.tolist(), "omega": self.kind._shape(omega)}

    def _metric(self, guess: Guess) -> list[float]:
        """Inverse metric at the start: variances over lambda; log scales have no unit, so 1 / lambda."""
        variance = guess.sd**2
        if self.kind.name == "fullrank":  # row by row: entries left of the diagonal, the diagonal's log
            scales = [v for i, own in enumerate(variance) for v in [own] * i + [1.0]]
        else:
            scales = [1.0] * (len(variance) if self.kind.name == "meanfield" else 1)
        return [float(value) / self.lam for value in (*variance, *scales)]


def library_of(target: Target) -> Library:
    """The target's compiled program; raises ValueError for a target of Python functions."""
    if target.library is None:
        raise ValueError(f"target must be a Stan program for psi to be sampled, but {target.name} is not")
    return target.library


def _read_reports(scratch: Path) -> tuple[int, int, str]:
    """Evaluations, rejections and the last reason, over the processes of a run."""
    evaluations, rejected, reason = 0, 0, ""
    for report in sorted(scratch.glob("report.*")):
        counts, _, text = report.read_text(encoding="utf-8", errors="replace").partition("\n")
        evaluations += int(counts.split()[0])
        rejected += int(counts.split()[1])
        reason = text.strip() or reason
    if evaluations == 0:
        raise TargetError("psi was sampled but the target did not report its evaluations")
    return evaluations, rejected, reason
