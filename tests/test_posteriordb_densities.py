"""Programs of posteriordb without reference draws, against their densities in NumPy on made-up data."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from closed_forms import ClosedForm, Data, Values
from parity import differentiate, expected_log_density, relative_error
from scipy import stats
from scipy.integrate import solve_ivp
from scipy.special import expit

from dais_stan import resources
from dais_stan.target import Target

RNG = np.random.default_rng(3)
ROWS = 7


def positive(*shape: int) -> np.ndarray:
    return RNG.uniform(0.5, 2, shape)


def regression(response: str, columns: Callable[[Data], list[np.ndarray]]) -> Callable[[Values, Data], float]:
    """log(response) or response, as named, on an intercept and columns; flat priors."""

    def log_density(values: Values, data: Data) -> float:
        design = np.column_stack([np.ones(data["N"]), *columns(data)])
        y = np.log(data[response[4:]]) if response.startswith("log ") else data[response]
        return stats.norm.logpdf(y, design @ values["beta"], values["sigma"]).sum()

    return log_density


def shape_columns(data: Data) -> list[np.ndarray]:
    area = data["diam1"] * data["diam2"]
    shape = np.log(data["diam1"] / data["diam2"])
    return [np.log(area * data["canopy_height"]), np.log(area), shape, np.log(data["total_height"])]


def centred_at_conventions(data: Data) -> list[np.ndarray]:
    school, iq = data["mom_hs"] - 0.5, data["mom_iq"] - 100
    return [school, iq, school * iq]


def diamonds(values: Values, data: Data) -> float:
    centred = data["X"][:, 1:] - data["X"][:, 1:].mean(0)
    return (
        stats.norm.logpdf(values["b"]).sum()
        + stats.t.logpdf(values["Intercept"], 3, 8, 10)
        + stats.t.logpdf(values["sigma"], 3, 0, 10)
        + stats.norm.logpdf(data["Y"], values["Intercept"] + centred @ values["b"], values["sigma"]).sum()
    )


def hmm_drive_1(values: Values, data: Data) -> float:
    """The sum over every path of states, one by one."""
    step = np.log([values["theta1"], values["theta2"]])
    emission = stats.norm.logpdf(data["u"][:, None], values["phi"], data["tau"])
    emission = emission + stats.norm.logpdf(data["v"][:, None], values["lambda"], data["rho"])
    times = np.arange(data["N"])
    paths = [np.array(path) for path in product((0, 1), repeat=data["N"])]
    likelihood = np.logaddexp.reduce(
        [emission[times, path].sum() + step[path[:-1], path[1:]].sum() for path in paths]
    )
    rows = [stats.dirichlet(a).logpdf(values[f"theta{k}"]) for k, a in enumerate(data["alpha"], 1)]
    means = [stats.norm.logpdf(values[name], [0, 3], 1).sum() for name in ("phi", "lambda")]
    return float(likelihood + sum(rows) + sum(means))


def hmm_free(values: Values) -> np.ndarray:
    return np.concatenate([values["theta1"][:1], values["theta2"][:1], values["phi"], values["lambda"]])


def accel_gp(values: Values, data: Data) -> float:
    total, predictor = 0.0, {}
    for suffix, location in (("", -13), ("_sigma", 0)):
        z, scale, length = (values[f"{name}{suffix}_1"] for name in ("zgp", "sdgp", "lscale"))
        frequency = data[f"slambda{suffix}_1"][:, 0]
        density = scale**2 * np.sqrt(2 * np.pi) * length * np.exp(-((length * frequency) ** 2) / 2)
        predictor[suffix] = values[f"Intercept{suffix}"] + data[f"Xgp{suffix}_1"] @ (np.sqrt(density) * z)
        total += stats.t.logpdf(values[f"Intercept{suffix}"], 3, location, 10 if suffix else 36)
        total += stats.t.logpdf(scale, 3, 0, 36) + stats.norm.logpdf(z).sum()
        total += stats.invgamma.logpdf(length, 1.124909, scale=0.0177)
    return total + stats.norm.logpdf(data["Y"], predictor[""], np.exp(predictor["_sigma"])).sum()


def irt_2pl(values: Values, data: Data) -> float:
    chance = expit(values["a"][:, None] * (values["theta"] - values["b"][:, None]))
    scales = [values[f"sigma_{name}"] for name in ("theta", "a", "b")]
    return (
        stats.cauchy.logpdf(scales, 0, 2).sum()
        + stats.norm.logpdf(values["theta"], 0, scales[0]).sum()
        + stats.lognorm.logpdf(values["a"], scales[1]).sum()
        + stats.norm.logpdf(values["mu_b"], 0, 5)
        + stats.norm.logpdf(values["b"], values["mu_b"], scales[2]).sum()
        + stats.bernoulli.logpmf(data["y"], chance).sum()
    )


def low_dim_gauss_mix_collapse(values: Values, data: Data) -> float:
    density = stats.norm.pdf(np.asarray(data["y"])[:, None], values["mu"], values["sigma"])
    mixed = np.log(density @ [values["theta"], 1 - values["theta"]]).sum()
    prior = stats.norm.logpdf([*values["mu"], *values["sigma"]], 0, 2).sum()
    return mixed + prior + stats.beta.logpdf(values["theta"], 5, 5)


def radon(values: Values, data: Data, alpha: np.ndarray) -> float:
    covariates = np.column_stack([data["log_uppm"], data["floor_measure"]])
    mean = alpha[data["county_idx"] - 1] + covariates @ values["beta"]
    return (
        stats.norm.logpdf([values["mu_alpha"], *values["beta"]], 0, 10).sum()
        + stats.norm.logpdf([values["sigma_alpha"], values["sigma_y"]]).sum()
        + stats.norm.logpdf(data["log_radon"], mean, values["sigma_y"]).sum()
    )


def radon_centered(values: Values, data: Data) -> float:
    prior = stats.norm.logpdf(values["alpha"], values["mu_alpha"], values["sigma_alpha"]).sum()
    return prior + radon(values, data, values["alpha"])


def radon_noncentered(values: Values, data: Data) -> float:
    alpha = values["mu_alpha"] + values["sigma_alpha"] * values["alpha_raw"]
    return stats.norm.logpdf(values["alpha_raw"]).sum() + radon(values, data, alpha)


def rats_model(values: Values, data: Data) -> float:
    rat = data["rat"] - 1
    mean = values["alpha"][rat] + values["beta"][rat] * (data["x"] - data["xbar"])
    total = stats.norm.logpdf(data["y"], mean, values["sigma_y"]).sum()
    for name in ("alpha", "beta"):
        total += stats.norm.logpdf(values[f"mu_{name}"], 0, 100)
        total += stats.norm.logpdf(values[name], values[f"mu_{name}"], values[f"sigma_{name}"]).sum()
    return total


def surgical_model(values: Values, data: Data) -> float:
    return (
        stats.norm.logpdf(values["mu"], 0, 1000)
        + stats.invgamma.logpdf(values["sigmasq"], 0.001, scale=0.001)
        + stats.norm.logpdf(values["b"], values["mu"], np.sqrt(values["sigmasq"])).sum()
        + stats.binom.logpmf(data["r"], data["n"], expit(values["b"])).sum()
    )


def wells_dist100ars_model(values: Values, data: Data) -> float:
    logit = values["alpha"] + values["beta"] @ np.array([data["dist"] / 100, data["arsenic"]])
    return stats.bernoulli.logpmf(data["switched"], expit(logit)).sum()


def trajectory(rate: Callable[[np.ndarray], list[float]], start: np.ndarray, times: np.ndarray) -> np.ndarray:
    """States at the times, (times, states), to ten digits; the clock starts at 0."""
    span = (0, times[-1])
    return solve_ivp(lambda t, u: rate(u), span, start, "DOP853", times, rtol=1e-11, atol=1e-11).y.T


def lotka_volterra(values: Values, data: Data) -> float:
    a, b, c, d = values["theta"]
    states = trajectory(
        lambda u: [(a - b * u[1]) * u[0], (d * u[0] - c) * u[1]], values["z_init"], data["ts"]
    )
    observed, expected = np.vstack([data["y_init"], data["y"]]), np.vstack([values["z_init"], states])
    return (
        stats.norm.logpdf([a, c], 1, 0.5).sum()
        + stats.norm.logpdf([b, d], 0.05, 0.05).sum()
        + stats.lognorm.logpdf(values["sigma"], 1, scale=np.exp(-1)).sum()
        + stats.lognorm.logpdf(values["z_init"], 1, scale=10).sum()
        + stats.lognorm.logpdf(observed, values["sigma"], scale=expected).sum()
    )


def sir(values: Values, data: Data) -> float:
    beta, gamma, xi, delta = (values[name] for name in ("beta", "gamma", "xi", "delta"))

    def rate(y: np.ndarray) -> list[float]:
        infections = beta * y[0] * y[3] / (1e6 + y[3])
        return [-infections, infections - gamma * y[1], gamma * y[1], xi * y[1] - delta * y[3]]

    states = trajectory(rate, data["y0"], data["t"])
    infected = -np.diff(np.concatenate([[data["y0"][0]], states[:, 0]]))
    return (
        stats.cauchy.logpdf([beta, gamma, xi, delta], 0, [2.5, 1, 25, 1]).sum()
        + stats.poisson.logpmf(data["stoi_hat"], infected).sum()
        + stats.lognorm.logpdf(data["B_hat"], 0.15, scale=states[:, 3]).sum()
    )


MESQUITE = ("weight", "diam1", "diam2", "canopy_height", "total_height", "density")
RADON = {
    "N": ROWS,
    "J": 3,
    "county_idx": np.array([1, 1, 2, 3, 3, 3, 2]),
    **{name: RNG.normal(size=ROWS) for name in ("log_uppm", "floor_measure", "log_radon")},
}
BUSHES = {"N": ROWS, "group": RNG.integers(0, 2, ROWS), **{name: positive(ROWS) for name in MESQUITE}}
CASES: dict[str, tuple[Data, ClosedForm]] = {
    "logearn_logheight_male": (
        {"N": ROWS, "earn": positive(ROWS), "height": positive(ROWS), "male": RNG.integers(0, 2, ROWS)},
        ClosedForm(regression("log earn", lambda data: [np.log(data["height"]), data["male"]])),
    ),
    "kidscore_interaction_c2": (
        {"N": ROWS, "kid_score": positive(ROWS), "mom_hs": positive(ROWS), "mom_iq": 100 * positive(ROWS)},
        ClosedForm(regression("kid_score", centred_at_conventions)),
    ),
    "logmesquite_logvas": (
        BUSHES,
        ClosedForm(regression("log weight", lambda d: [*shape_columns(d), np.log(d["density"]), d["group"]])),
    ),
    "logmesquite_logvash": (
        {name: value for name, value in BUSHES.items() if name != "density"},
        ClosedForm(regression("log weight", lambda data: [*shape_columns(data), data["group"]])),
    ),
    "diamonds": (
        {"N": ROWS, "K": 4, "X": RNG.normal(size=(ROWS, 4)), "Y": RNG.normal(8, 1, ROWS)},
        ClosedForm(diamonds),
    ),
    "hmm_drive_1": (
        {
            "N": 5,
            "K": 2,
            "u": RNG.normal(size=5),
            "v": RNG.normal(size=5),
            "alpha": np.array([[4, 2], [2, 4]]),
            "tau": 0.7,
            "rho": 0.4,
        },
        ClosedForm(hmm_drive_1, hmm_free),
    ),
    "accel_gp": (
        {
            "N": ROWS,
            "Y": RNG.normal(size=ROWS),
            "NBgp_1": 3,
            "Xgp_1": RNG.normal(size=(ROWS, 3)),
            "slambda_1": positive(3, 1),
            "NBgp_sigma_1": 2,
            "Xgp_sigma_1": RNG.normal(size=(ROWS, 2)),
            "slambda_sigma_1": positive(2, 1),
        },
        ClosedForm(accel_gp),
    ),
    "irt_2pl": ({"I": 3, "J": 4, "y": RNG.integers(0, 2, (3, 4))}, ClosedForm(irt_2pl)),
    "low_dim_gauss_mix_collapse": (
        {"N": ROWS, "y": RNG.normal(size=ROWS)},
        ClosedForm(low_dim_gauss_mix_collapse),
    ),
    "radon_hierarchical_intercept_centered": (RADON, ClosedForm(radon_centered)),
    "radon_hierarchical_intercept_noncentered": (RADON, ClosedForm(radon_noncentered)),
    "rats_model": (
        {
            "N": 2,
            "Npts": ROWS,
            "rat": np.array([1, 2, 1, 2, 2, 1, 1]),
            "x": positive(ROWS),
            "y": positive(ROWS),
            "xbar": 1.2,
        },
        ClosedForm(rats_model),
    ),
    "surgical_model": (
        {"N": 3, "n": np.array([10, 20, 30]), "r": np.array([0, 5, 30])},
        ClosedForm(surgical_model),
    ),
    "wells_dist100ars_model": (
        {
            "N": ROWS,
            "dist": 50 * positive(ROWS),
            "arsenic": positive(ROWS),
            "switched": RNG.integers(0, 2, ROWS),
        },
        ClosedForm(wells_dist100ars_model),
    ),
}
SOLVED: dict[str, tuple[Data, ClosedForm]] = {
    "lotka_volterra": (
        {"N": 4, "ts": np.arange(1.0, 5), "y_init": positive(2), "y": positive(4, 2)},
        ClosedForm(lotka_volterra),
    ),
    "sir": (
        {
            "N_t": 3,
            "t": np.array([1.0, 2, 4]),
            "y0": np.array([1000.0, 10, 0, 1e5]),
            "stoi_hat": np.array([50, 60, 90]),
            "B_hat": 1e5 * positive(3),
        },
        ClosedForm(sir),
    ),
}


@pytest.mark.parametrize(
    ("name", "tolerance"), [*((name, 1e-9) for name in CASES), ("lotka_volterra", 5e-5), ("sir", 3e-6)]
)
def test_density_and_gradient_are_the_closed_forms(name: str, tolerance: float) -> None:
    """Up to the constants that the interpreter drops. With a solver in between: to its tolerance."""
    data, form = (CASES | SOLVED)[name]
    target = Target.from_stan(
        resources.stan_models() / "posteriordb" / f"{name}.stan", data=dict(data), engine="stanli"
    )
    z = np.random.default_rng(7).normal(0, 0.5, (3, target.dim))
    change = np.diff(expected_log_density(target, form, data, z))
    assert relative_error(np.diff(target.log_density(z)), change) < tolerance
    gradient = differentiate(
        lambda points: expected_log_density(target, form, data, points), z[0], np.eye(target.dim)
    )
    assert relative_error(target.log_density_gradient(z[0])[1], gradient) < tolerance
