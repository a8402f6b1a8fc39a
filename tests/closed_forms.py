"""The densities of stan_models written again with NumPy and SciPy, to hold Stan's answers against.

`FORMS[name]` has two functions of one point: `log_density(values, data)`, the density of the declared
parameters as the program states it, and `free(values)`, coordinates in which that density is with respect
to Lebesgue measure (three of a simplex's four shares, the lower triangle of a covariance, ...). Then
log p(z) = log_density + log |det d free / d z|, whatever transform this version of Stan uses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import betaln, gammaln, log_expit, xlogy

Values = Mapping[str, np.ndarray]
Data = Mapping[str, Any]


def everything(values: Values) -> np.ndarray:
    """Free coordinates where every declared number is one."""
    return np.concatenate([np.ravel(value) for value in values.values()])


def nothing(values: Values) -> np.ndarray:
    """Free coordinates of a program that has a unit vector only."""
    return np.empty(0)


def below_diagonal(name: str, offset: int) -> Callable[[Values], np.ndarray]:
    """Free coordinates of a matrix: below the diagonal (offset -1) or with the diagonal (offset 0)."""
    return lambda values: values[name][np.tril_indices(len(values[name]), offset)]


@dataclass(frozen=True)
class ClosedForm:
    log_density: Callable[[Values, Data], float]
    free: Callable[[Values], np.ndarray] = everything
    sphere: str = ""  # a unit vector of this name: its z are free coordinates, with Stan's exp(-|z|^2 / 2)


def eight_schools(theta: np.ndarray, values: Values, data: Data) -> float:
    return (
        stats.norm.logpdf(values["mu"], 0, 5)
        + stats.cauchy.logpdf(values["tau"], 0, 5)
        + stats.norm.logpdf(data["y"], theta, data["sigma"]).sum()
    )


def eight_schools_centered(values: Values, data: Data) -> float:
    prior = stats.norm.logpdf(values["theta"], values["mu"], values["tau"]).sum()
    return prior + eight_schools(values["theta"], values, data)


def eight_schools_noncentered(values: Values, data: Data) -> float:
    prior = stats.norm.logpdf(values["theta_trans"]).sum()
    return prior + eight_schools(values["mu"] + values["tau"] * values["theta_trans"], values, data)


def logistic_regression(values: Values, data: Data) -> float:
    logit = values["alpha"] + np.asarray(data["X"]) @ values["beta"]
    likelihood = log_expit(np.where(np.asarray(data["y"]) == 1, logit, -logit)).sum()
    return stats.norm.logpdf(values["alpha"]) + stats.norm.logpdf(values["beta"]).sum() + likelihood


def banana(values: Values, data: Data) -> float:
    x, y = values["x"], values["y"]
    return -(x**4) / 8 + y * x**2 - 2 * y**2 - x**2 / 4


def funnel(values: Values, data: Data) -> float:
    scale = np.exp(values["v"] / 2)
    return stats.norm.logpdf(values["v"], 0, 3) + stats.norm.logpdf(values["x"], 0, scale).sum()


def gaussian(values: Values, data: Data) -> float:
    return stats.multivariate_normal.logpdf(values["x"], data["m"], data["S"])


def laplace_mixture(values: Values, data: Data) -> float:
    parts = [stats.laplace.logpdf(values["x"], mode, 0.75) for mode in (-1.5, 1.5)]
    return float(np.logaddexp(parts[0] + np.log(0.4), parts[1] + np.log(0.6)))


def beta_binomial(values: Values, data: Data) -> float:
    theta, n, y, a, b = values["theta"], data["n"], data["y"], data["a"], data["b"]
    choose = gammaln(n + 1) - gammaln(y + 1) - gammaln(n - y + 1)
    return choose + xlogy(y + a - 1, theta) + xlogy(n - y + b - 1, 1 - theta) - betaln(a, b)


def conjugate_normal(values: Values, data: Data) -> float:
    prior = stats.norm.logpdf(values["mu"], data["m0"], data["s0"])
    return prior + stats.norm.logpdf(data["y"], values["mu"], data["sigma"]).sum()


def lower(values: Values, data: Data) -> float:
    return stats.gamma.logpdf(values["above"] - 1.5, 2.5, scale=1 / 2)


def upper(values: Values, data: Data) -> float:
    return stats.lognorm.logpdf(-0.5 - values["below"], 0.5).sum()


def lower_upper(values: Values, data: Data) -> float:
    return stats.beta.logpdf(values["between"], 2, 3, loc=-1, scale=4).sum()


def offset_multiplier(values: Values, data: Data) -> float:
    shifted = stats.norm.logpdf(values["shifted"], 3, values["scale"]).sum()
    return stats.expon.logpdf(values["scale"]) + shifted


def ordered(values: Values, data: Data) -> float:
    return stats.norm.logpdf(values["increasing"]).sum() + np.log(6)


def positive_ordered(values: Values, data: Data) -> float:
    return stats.expon.logpdf(values["increasing_positive"]).sum() + np.log(6)


def simplex(values: Values, data: Data) -> float:
    concentration = np.array([1.5, 2, 3, 0.8])
    constant = gammaln(concentration.sum()) - gammaln(concentration).sum()
    return constant + ((concentration - 1) * np.log(values["share"])).sum()


def unit_vector(values: Values, data: Data) -> float:
    """von Mises-Fisher relative to the uniform distribution, and the constant of the radius' normal."""
    on_sphere = stats.vonmises_fisher([2 / 3, -1 / 3, 2 / 3], 2).logpdf(values["direction"]) + np.log(
        4 * np.pi
    )
    return float(on_sphere) - 1.5 * np.log(2 * np.pi)


def lkj_log_constant(dim: int, shape: float) -> float:
    """Integral of det(R)^(shape - 1): Lewandowski, Kurowicka and Joe (2009), from their equation 16."""
    total = 0.0
    for k in range(1, dim):
        half = shape + (dim - k - 1) / 2
        total += (2 * shape - 2 + dim - k) * (dim - k) * np.log(2) + (dim - k) * betaln(half, half)
    return total


def cholesky_factor_corr(values: Values, data: Data) -> float:
    """The Jacobian of L -> L L' is prod_k L_kk^(K - k); det(R)^(2 - 1) = prod_k L_kk^2."""
    diagonal = np.diag(values["corr_factor"])
    return ((np.array([2, 1, 0]) + 2) * np.log(diagonal)).sum() - lkj_log_constant(3, 2)


def corr_matrix(values: Values, data: Data) -> float:
    return 0.5 * np.linalg.slogdet(values["correlation"])[1] - lkj_log_constant(3, 1.5)


def cholesky_factor_cov(values: Values, data: Data) -> float:
    factor = values["cov_factor"]
    jacobian = np.log(4 * factor[0, 0] ** 2 * factor[1, 1])
    return stats.wishart.logpdf(factor @ factor.T, 5, [[0.5, 0.1], [0.1, 0.3]]) + jacobian


def cov_matrix(values: Values, data: Data) -> float:
    return stats.invwishart.logpdf(values["covariance"], 5, [[2, 0.5], [0.5, 1]])


def bimodal(values: Values, data: Data) -> float:
    modes = [stats.norm.logpdf(values["z"], mode, 0.25).sum() for mode in (0, 1)]
    return np.logaddexp(*modes) - np.log(2)


def gaussian_process(values: Values, data: Data) -> float:
    distance = np.subtract.outer(data["t"], data["t"])
    covariance = np.exp(-(distance**2) / (2 * data["rho"] ** 2)) + data["jitter"] * np.eye(data["N"])
    prior = stats.multivariate_normal.logpdf(values["z"], np.zeros(data["N"]), covariance)
    return prior + stats.norm.logpdf(data["y"], values["z"], data["sigma"]).sum()


def vae_decoder(values: Values, data: Data) -> float:
    weights = (values[f"{layer}_{part}"] for layer in ("hidden", "pixel") for part in ("weights", "bias"))
    hidden_weights, hidden_bias, pixel_weights, pixel_bias = weights
    hidden = np.tanh(values["z"] @ hidden_weights.T + hidden_bias)
    logits = hidden @ pixel_weights.T + pixel_bias
    pixels = log_expit(np.where(np.asarray(data["x"]) == 1, logits, -logits)).sum()
    standard = [np.ravel(part) for part in (values["z"], hidden_weights, hidden_bias, pixel_weights)]
    prior = stats.norm.logpdf(np.concatenate(standard)).sum() + stats.norm.logpdf(pixel_bias, 0, 3).sum()
    return prior + pixels


def logistic_paper_code(values: Values, data: Data) -> float:
    logit = -(np.asarray(data["X"]) @ values["w"]) - data["K"] * values["b"]
    likelihood = log_expit(np.where(np.asarray(data["y"]) == 1, logit, -logit)).sum()
    return stats.norm.logpdf([values["b"], *values["w"]]).sum() + likelihood


FORMS = {
    "eight_schools_centered": ClosedForm(eight_schools_centered),
    "eight_schools_noncentered": ClosedForm(eight_schools_noncentered),
    "logistic_regression": ClosedForm(logistic_regression),
    "banana": ClosedForm(banana),
    "funnel": ClosedForm(funnel),
    "gaussian": ClosedForm(gaussian),
    "laplace_mixture": ClosedForm(laplace_mixture),
    "beta_binomial": ClosedForm(beta_binomial),
    "conjugate_normal": ClosedForm(conjugate_normal),
}

# Programs whose data the benchmarks make: here with a few numbers.
BENCHMARK_FORMS = {
    "bimodal": (ClosedForm(bimodal), {"D": 3}),
    "gaussian_process": (
        ClosedForm(gaussian_process),
        {"N": 3, "t": [0, 1, 3], "y": [0.5, -0.2, 1], "rho": 0.8, "sigma": 0.1, "jitter": 1e-5},
    ),
    "logistic_paper_code": (
        ClosedForm(logistic_paper_code),
        {"N": 3, "K": 2, "X": [[0.1, 1.2], [-0.4, 0.3], [2.0, -1.0]], "y": [0, 1, 1]},
    ),
    "vae_decoder": (
        ClosedForm(vae_decoder),
        {"N": 2, "P": 3, "L": 2, "H": 2, "x": [[0, 1, 1], [1, 0, 1]]},
    ),
}

CONSTRAINED = {
    "lower": ClosedForm(lower),
    "upper": ClosedForm(upper),
    "lower_upper": ClosedForm(lower_upper),
    "offset_multiplier": ClosedForm(offset_multiplier),
    "ordered": ClosedForm(ordered),
    "positive_ordered": ClosedForm(positive_ordered),
    "simplex": ClosedForm(simplex, lambda values: values["share"][:3]),
    "unit_vector": ClosedForm(unit_vector, nothing, sphere="direction"),
    "cholesky_factor_corr": ClosedForm(cholesky_factor_corr, below_diagonal("corr_factor", -1)),
    "corr_matrix": ClosedForm(corr_matrix, below_diagonal("correlation", -1)),
    "cholesky_factor_cov": ClosedForm(cholesky_factor_cov, below_diagonal("cov_factor", 0)),
    "cov_matrix": ClosedForm(cov_matrix, below_diagonal("covariance", 0)),
}


def all_types(values: Values, data: Data) -> float:
    return sum(form.log_density(values, data) for form in CONSTRAINED.values())


def all_types_free(values: Values) -> np.ndarray:
    whole = ("above", "below", "between", "scale", "shifted", "increasing", "increasing_positive")
    parts = [everything({name: values[name] for name in whole})]
    matrices = ("simplex", "cholesky_factor_corr", "corr_matrix", "cholesky_factor_cov", "cov_matrix")
    return np.concatenate([*parts, *(CONSTRAINED[name].free(values) for name in matrices)])


ALL_TYPES = ClosedForm(all_types, all_types_free, sphere="direction")
