"""What a mixture is worth: the two sides of its objective, and the error of a few of its components.

With m = E_psi[q_theta], Lange et al. (2022), equations 4 and 9 and section 3.2:

    KL(m || p) = E_psi[KL(q_theta || p)] - I[x; theta]                  (the KL bias)
    E[KL(m_T || p)] = KL(m || p) + E[KL(m_T || m)]                      (bias and KL variance, T components)

All are in nats. p's normaliser enters as ``log_evidence``; without it the divergences from p are up to that
constant, which does not matter where mixtures of one target are compared.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dais_stan.importance import ImportanceSample, importance_sample
from dais_stan.optimize import mean_and_se

from .components import LOG_2PI
from .mixture import Expectation, Mixture, heavy_tailed

#: Draws for the normaliser of psi.
_NORMALISER_DRAWS = 4000


def expected_kl(mixture: Mixture, log_evidence: float = 0.0) -> Expectation:
    """E_psi[KL(q_theta || p)]: how far single components are from the target."""
    components = mixture.components
    values = log_evidence - components.entropy - mixture.psi.expected_log_density(components)
    return mixture.mean_of(values)


class MutualInformation(NamedTuple):
    """Bounds on I[x; theta], each with Monte Carlo error ``se``."""

    lower: float
    upper: float
    se: float


def mutual_information(mixture: Mixture) -> MutualInformation:
    """I[x; theta] = E[log q(x; theta) - log m(x)], from a draw of x for each theta.

    m is known by T components only. With theta's own among them the estimate is too low, and at most log T;
    without it too high. The two are close where the components overlap, and tell when T is too small.
    """
    components = mixture.components
    x = components.one_of_each(np.random.default_rng(mixture.seed))
    own = components.log_own(x)
    lower, upper = (mixture.mean_of(own - log_m) for log_m in components.log_prob_with_and_without_own(x))
    return MutualInformation(float(lower.value), float(upper.value), float(max(lower.se, upper.se)))


class FisherInformation(NamedTuple):
    """The Stam-type bound I_F on I[x; theta], and k-hat of the weights that give psi's normaliser."""

    value: float
    se: float
    khat: float


def fisher_information(mixture: Mixture) -> FisherInformation:
    """I_F[x; theta] = H[theta] + E_psi[log|F(theta)|] / 2 - k/2 log(2 pi e): equation 9.

    theta's entropy takes psi's normaliser, from importance draws of a Student t with psi's own moments. Not
    for components "fullrank", whose factors a Student t leaves.
    """
    psi, theta = mixture.psi, mixture.flat_theta
    if psi.kind.scale_name != "omega":
        raise ValueError("fisher_information is for components 'meanfield' and 'isotropic'")
    flat = np.concatenate([values.reshape(len(theta["mu"]), -1) for values in theta.values()], axis=1)
    normaliser = _log_normaliser(mixture, flat)
    excess = psi.kind.half_log_fisher(theta) - psi.log_density(theta)
    mean = mixture.mean_of(excess)
    constant = 0.5 * flat.shape[1] * (1.0 + LOG_2PI)
    value = float(mean.value) + normaliser.log_evidence - constant
    return FisherInformation(value, float(np.hypot(mean.se, normaliser.log_evidence_se)), normaliser.khat)


def _log_normaliser(mixture: Mixture, flat: NDArray) -> ImportanceSample:
    """Importance weights of psi over a Student t with the moments of theta, ``flat`` (T, k)."""
    proposal = heavy_tailed(flat.mean(axis=0), np.cov(flat, rowvar=False), mixture.seed)
    draws = proposal.rvs(_NORMALISER_DRAWS)
    dim = mixture.target.dim
    omega = draws[:, dim:] if mixture.psi.kind.name == "meanfield" else draws[:, dim]
    log_psi = mixture.psi.log_density({"mu": draws[:, :dim], "omega": omega})
    return importance_sample(draws, log_psi, proposal.logpdf(draws))


class KLError(NamedTuple):
    """E[KL(m_T || p)] with its standard error, and bounds on its part KL(m || p), the bias.

    The rest is the KL variance, E[KL(m_T || m)].
    """

    error: float
    se: float
    bias_lower: float
    bias_upper: float


def kl_error(mixture: Mixture, components: int, log_evidence: float = 0.0) -> KLError:
    """The expected divergence of the mean of ``components`` T components from the target, bias and variance.

    Draws of psi are shuffled and dealt into groups of T. m, the limit of many components, is bounded as in
    ``mutual_information``. Infinite at lambda = 1, where components are points.
    """
    total = len(mixture.components)
    if not 1 <= components <= total:
        raise ValueError(f"components must be from 1 to {total}, the draws of psi, found {components}")
    if mixture.lam == 1.0:
        return KLError(np.inf, 0.0, np.inf, np.inf)
    rng = np.random.default_rng(mixture.seed)
    chosen = rng.permutation(total)[: total - total % components]
    groups = mixture.components.take(chosen)
    x = groups.one_of_each(rng)
    parts = [slice(start, start + components) for start in range(0, len(chosen), components)]
    log_few = np.concatenate([groups.take(part).log_prob(x[part]) for part in parts])
    log_p = mixture.psi.expected_log_density(groups) - log_evidence
    error, se = mean_and_se((log_few - log_p).reshape(-1, components).mean(axis=1))
    upper, lower = (float(np.mean(log_m - log_p)) for log_m in groups.log_prob_with_and_without_own(x))
    return KLError(error, se, lower, upper)
