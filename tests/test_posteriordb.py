"""Our Stan programs of posteriordb's posteriors against posteriordb's reference draws and summaries.

Draws from the right posterior p have E[grad log p(z)] = 0 and E[(z - m) grad log p(z)^T] = -I for any m
(Stein's identities), in the unconstrained space: a check of prior, likelihood and Jacobian that needs no
sampling.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dais_stan import arviz_io, fitting, nuts, resources
from dais_stan.target import Target

# The data hold variables for other models too.
pytestmark = pytest.mark.filterwarnings("ignore:Ignored variables")

POSTERIORS = [
    "arK-arK",
    "arma-arma11",
    "bball_drive_event_0-hmm_drive_0",
    "bball_drive_event_1-hmm_drive_1",
    "diamonds-diamonds",
    "earnings-earn_height",
    "earnings-log10earn_height",
    "earnings-logearn_height",
    "earnings-logearn_height_male",
    "earnings-logearn_interaction",
    "earnings-logearn_interaction_z",
    "earnings-logearn_logheight_male",
    "eight_schools-eight_schools_centered",
    "eight_schools-eight_schools_noncentered",
    "garch-garch11",
    "gp_pois_regr-gp_pois_regr",
    "gp_pois_regr-gp_regr",
    "hmm_example-hmm_example",
    "hudson_lynx_hare-lotka_volterra",
    "kidiq-kidscore_interaction",
    "kidiq-kidscore_momhs",
    "kidiq-kidscore_momhsiq",
    "kidiq-kidscore_momiq",
    "kidiq_with_mom_work-kidscore_interaction_c",
    "kidiq_with_mom_work-kidscore_interaction_c2",
    "kidiq_with_mom_work-kidscore_interaction_z",
    "kidiq_with_mom_work-kidscore_mom_work",
    "kilpisjarvi_mod-kilpisjarvi",
    "low_dim_gauss_mix-low_dim_gauss_mix",
    "mesquite-logmesquite",
    "mesquite-logmesquite_logva",
    "mesquite-logmesquite_logvas",
    "mesquite-logmesquite_logvash",
    "mesquite-logmesquite_logvolume",
    "mesquite-mesquite",
    "nes1972-nes",
    "nes1976-nes",
    "nes1980-nes",
    "nes1984-nes",
    "nes1988-nes",
    "nes1992-nes",
    "nes1996-nes",
    "nes2000-nes",
    "one_comp_mm_elim_abs-one_comp_mm_elim_abs",
    "sblrc-blr",
    "sblri-blr",
]
SAME_POSTERIOR = {"eight_schools-eight_schools_centered": "eight_schools-eight_schools_noncentered"}


def program_of(posterior: str) -> Path:
    name = f"{posterior.split('-')[1]}.stan"
    models = resources.stan_models()
    return next(path for path in (models / "posteriordb" / name, models / name) if path.is_file())


def shared_file(shared: Path, *parts: str) -> Path:
    path = shared.joinpath("posteriordb", *parts)
    if not path.is_file():
        pytest.skip(f"the folder of reference data has no {'/'.join(parts)}")
    return path


def data_of(shared: Path, posterior: str) -> dict[str, Any]:
    return json.loads(shared_file(shared, "data", f"{posterior.split('-')[0]}.json").read_text())


def open_posterior(shared: Path, posterior: str, engine: str) -> Target:
    return Target.from_stan(program_of(posterior), data=data_of(shared, posterior), engine=engine)


def reference_draws(shared: Path, posterior: str) -> dict[str, np.ndarray]:
    """Thinned reference draws of each declared variable, (1000, *shape)."""
    stored = np.load(shared_file(shared, "draws", f"{SAME_POSTERIOR.get(posterior, posterior)}.npz"))
    columns: dict[str, list[np.ndarray]] = {}
    for name, column in zip(stored["names"], stored["draws"].T.astype(float), strict=True):
        columns.setdefault(name.split("[")[0], []).append(column)
    scalar = {name.split("[")[0] for name in stored["names"] if "[" not in name}
    return {name: np.array(c[0] if name in scalar else np.transpose(c)) for name, c in columns.items()}


def sampled_parameters(
    posterior: str, draws: dict[str, np.ndarray], data: dict[str, Any]
) -> dict[str, np.ndarray]:
    """What the program samples, where the reference lists a transform of it or float32 rounds a sum."""
    if posterior == "eight_schools-eight_schools_noncentered":
        return {**draws, "theta_trans": (draws["theta"] - draws["mu"][:, None]) / draws["tau"][:, None]}
    if posterior == "gp_pois_regr-gp_pois_regr":
        distance = np.subtract.outer(data["x"], data["x"])
        rho, alpha = draws["rho"][:, None, None], draws["alpha"][:, None, None]
        covariance = alpha**2 * np.exp(-(distance**2) / (2 * rho**2)) + 1e-10 * np.eye(len(distance))
        factor = np.linalg.cholesky(covariance)
        return {**draws, "f_tilde": np.linalg.solve(factor, draws["f"][..., None])[..., 0]}
    if "hmm" in posterior:
        return draws | {
            name: draws[name] / draws[name].sum(1, keepdims=True) for name in ("theta1", "theta2")
        }
    return draws


def unconstrained_draws(target: Target, values: Mapping[str, np.ndarray]) -> np.ndarray:
    names = [name for name, variable in target.variables.items() if variable.block == "parameters"]
    count = len(values[names[0]])
    return np.array([target.unconstrain({name: values[name][i] for name in names}) for i in range(count)])


def worst_stein_z_score(target: Target, z: np.ndarray) -> float:
    """Largest deviation from Stein's identities, in standard errors.

    In coordinates w whitened by the draws' own covariance every direction has the same weight; in z,
    collinear coordinates would drown the narrow directions in the noise of the wide ones.
    """
    log_density, gradient = target.log_density_gradient(z)
    assert np.all(np.isfinite(log_density))
    factor = np.linalg.cholesky(np.cov(z.T))
    w, gradient_w = np.linalg.solve(factor, (z - z.mean(0)).T).T, gradient @ factor
    products = np.concatenate([np.ones((len(w), 1)), w], axis=1)[:, :, None] * gradient_w[:, None, :]
    expected = np.concatenate([np.zeros((1, target.dim)), -np.eye(target.dim)])
    return float(np.max(np.abs(products.mean(0) - expected) / products.std(0)) * np.sqrt(len(z)))


@pytest.mark.parametrize("posterior", POSTERIORS)
def test_reference_draws_obey_steins_identity(shared: Path, posterior: str) -> None:
    draws = sampled_parameters(posterior, reference_draws(shared, posterior), data_of(shared, posterior))
    target = open_posterior(shared, posterior, "stanli")
    assert worst_stein_z_score(target, unconstrained_draws(target, draws)) < 5


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("tau ~ cauchy(0, 5)", "tau ~ cauchy(0, 2)"),
        ("mu ~ normal(0, 5)", "mu ~ normal(0, 8)"),
        ("y ~ normal(theta, sigma)", "y ~ student_t(3, theta, sigma)"),
        ("tau ~ cauchy(0, 5);", "tau ~ cauchy(0, 5); target += log(tau);"),  # the Jacobian counted twice
    ],
)
def test_steins_identity_sees_a_wrong_program(shared: Path, right: str, wrong: str) -> None:
    posterior = "eight_schools-eight_schools_noncentered"
    data = data_of(shared, posterior)
    code = program_of(posterior).read_text()
    assert right in code
    target = Target.from_stan(stan_code=code.replace(right, wrong), data=data, engine="stanli")
    draws = sampled_parameters(posterior, reference_draws(shared, posterior), data)
    assert worst_stein_z_score(target, unconstrained_draws(target, draws)) > 5


@pytest.mark.parametrize(
    "posterior",
    [
        "eight_schools-eight_schools_noncentered",
        "gp_pois_regr-gp_pois_regr",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("arK-arK", "garch-garch11", "kidiq-kidscore_momiq")
        ),
    ],
)
def test_nuts_means_are_the_references(shared: Path, posterior: str) -> None:
    reference = json.loads(shared_file(shared, "summary", f"{posterior}.json").read_text())
    fit = nuts.sample(open_posterior(shared, posterior, "stanli"), chains=4, seed=2)
    scalars = arviz_io.scalars(arviz_io.dataset(fit.values))
    for name, mean, mcse in zip(
        reference["parameter_names"], reference["mean"], reference["mcse_mean"], strict=True
    ):
        ours = float(arviz_io.arviz.mcse(scalars[name]))
        assert abs(scalars[name].mean() - mean) < 4 * np.hypot(ours, mcse), name


VI_POSTERIORS = [
    "kidiq-kidscore_momiq",
    "kidiq-kidscore_interaction",
    "mesquite-mesquite",
    "earnings-log10earn_height",
    "sblri-blr",
]


@pytest.mark.parametrize("posterior", VI_POSTERIORS)
def test_full_rank_vi_gives_the_reference_moments(shared: Path, posterior: str) -> None:
    """CmdStan's ADVI misses these regressions by 3 to 1,700 standard deviations."""
    reference = json.loads(shared_file(shared, "summary", f"{posterior}.json").read_text())
    fit = fitting.fit(open_posterior(shared, posterior, "stanli"), "fullrank", seed=1)
    draws = arviz_io.scalars(fit.groups(10_000)["posterior"])
    values = np.stack([draws[name].ravel() for name in reference["parameter_names"]])
    sd = np.array(reference["sd"])
    assert np.abs((values.mean(axis=1) - reference["mean"]) / sd).max() < 0.1
    assert np.abs(np.log(values.std(axis=1) / sd)).max() < 0.1
    assert fit.converged and fit.warnings == []
