"""infmix.sample: from a target and a lambda to a mixture."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dais_stan.checks import chosen_seed
from dais_stan.fitting import fit
from dais_stan.importance import log_effective_size
from dais_stan.target import Target

from .mixture import Mixture, sampler_fit
from .nodes import default_count, moment_matched_nodes, plain_nodes
from .psi import KINDS, OMEGA_MAX, OMEGA_MIN, POINT_OMEGA, Guess, Kind, Psi, library_of

#: psi bends more than a posterior does: CmdStan's 0.8 leaves a few divergences on curved targets.
ADAPT_DELTA = 0.9
#: How the error of the nodes is estimated: so many draws of psi, and so many times the nodes.
_ERROR_DRAWS, _ERROR_FACTOR = 200, 8


def sample(
    target: Target,
    lam: float = 2.0,
    *,
    chains: int = 4,
    nodes: int | None = None,
    seed: int | None = None,
    components: str = "meanfield",
    fresh_nodes: bool = False,
    guess: Guess | None = None,
    iter_warmup: int = 1000,
    iter_sampling: int = 1000,
    **cmdstan: Any,
) -> Mixture:
    """An infinite stochastic mixture for the posterior of ``target``: Lange et al. (2022).

    Components q(x; theta) are drawn from psi(theta), proportional to sqrt|F(theta)| exp(-lam KL(q || p)), by
    CmdStan's NUTS. At lam = 1 that is sampling: components are points, and convergence is judged by mu. As
    lam grows psi settles on the best single component, which is what variational inference finds.

    lam
        At least 1; for components "fullrank", above D.
    nodes
        M, points over which a component's expected log density is taken: an even number of at least 2 D.
        None: the larger of 64 and 2 D, or 2 at lam = 1. A gradient of psi costs M gradients of the target.
    seed
        None takes one from the system and records it.
    components
        "meanfield" (diagonal covariances), "isotropic" or "fullrank".
    fresh_nodes
        Draw M plain normal nodes anew for each transition, as the authors' program does, which leaves psi
        not quite invariant; by default nodes are fixed, antithetic, moment-matched Sobol points.
    guess
        Mean and standard deviations to start from; None: a mean-field fit.
    cmdstan
        Further arguments of CmdStanPy's ``CmdStanModel.sample``, such as ``adapt_delta``, here 0.9.

    Raises ValueError for an argument, TargetError where the target has no density near the start.
    """
    kind = find_kind(components)
    kind.check_lambda(lam, target.dim)
    seed = chosen_seed(seed)
    library_of(target)
    began, gradients = time.perf_counter(), target.counts.gradient
    guess = guess or mean_field_guess(target, seed)
    psi = make_psi(target, kind, lam, guess, nodes, seed, fresh_nodes)
    settings = {
        "iter_warmup": iter_warmup,
        "iter_sampling": iter_sampling,
        "adapt_delta": ADAPT_DELTA,
        **cmdstan,
    }
    run = psi.sample(guess, chains, seed, settings)
    theta = _theta(run.nuts.draws, kind, target.dim)
    mixture = Mixture(
        psi=psi,
        theta=theta,
        sampler=sampler_fit(
            psi, theta, run.nuts.stats, seed, run.nuts.seconds, run.nuts.gradient_evaluations, settings
        ),
        node_error=node_error(psi, theta, seed),
        seed=seed,
        seconds=time.perf_counter() - began,
        gradient_evaluations=run.evaluations + target.counts.gradient - gradients,
        rejected=run.rejected,
        last_rejection=run.last_rejection,
        settings=settings,
    )
    for message in mixture.warnings:
        warnings.warn(message, stacklevel=2)
    return mixture


def mean_field_guess(target: Target, seed: int) -> Guess:
    """Where the posterior is, by mean-field VI; how good it is does not matter, so it warns of nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = fit(target, method="meanfield", seed=seed, importance_draws=100)
    return Guess(start.mean, start.sd)


def make_psi(
    target: Target, kind: Kind, lam: float, guess: Guess, nodes: int | None, seed: int, fresh: bool
) -> Psi:
    """psi with its nodes and the limits of its log standard deviations."""
    dim = target.dim
    if lam == 1.0:
        low, high = (np.log(guess.sd) + limit for limit in POINT_OMEGA)
    else:
        low, high = np.full(dim, OMEGA_MIN), np.full(dim, OMEGA_MAX)
    return Psi(target, kind, lam, _nodes(nodes, dim, lam, seed, fresh), low, high, fresh)


def _nodes(count: int | None, dim: int, lam: float, seed: int, fresh: bool) -> NDArray:
    if count is not None and count < 1:
        raise ValueError(f"nodes must be at least 1, found {count}")
    if fresh:
        return plain_nodes(count or default_count(dim), dim, seed)
    if count is None and lam == 1.0:
        # A component that is a point needs no expectation: a pair cancels the gradient's part in it.
        pair = plain_nodes(1, dim, seed)
        return np.concatenate((pair, -pair))
    return moment_matched_nodes(count or default_count(dim), dim, seed)


def find_kind(name: str) -> Kind:
    """The kind of components of this name; raises ValueError where there is none."""
    if name not in KINDS:
        raise ValueError(f"components must be one of {', '.join(KINDS)}, found {name!r}")
    return KINDS[name]


def _theta(draws: NDArray, kind: Kind, dim: int) -> dict[str, NDArray]:
    """psi's variables from Stan's columns, (chain, draw, ...)."""
    theta = {"mu": draws[:, :, :dim]}
    rest = draws[:, :, dim:]
    if kind.scale_name == "L":  # a matrix stands in the columns column by column
        theta["L"] = rest.reshape(*rest.shape[:2], dim, dim).swapaxes(2, 3)
    else:
        theta["omega"] = rest[:, :, 0] if kind.name == "isotropic" else rest
    return theta


def node_error(psi: Psi, theta: dict[str, NDArray], seed: int) -> float:
    """How far psi's nodes leave log psi from the truth, in nats, judged by many more nodes at draws of psi.

    The standard deviation of a normal error that would cost as many effective draws as weighting the draws
    to the truth does: sqrt(-log(ESS / draws)). A constant error costs nothing; a stray component whose
    density lies between the nodes costs itself only.
    """
    if psi.lam == 1.0:
        return 0.0
    flat = {name: values.reshape(-1, *values.shape[2:]) for name, values in theta.items()}
    chosen = np.linspace(0, len(flat["mu"]) - 1, _ERROR_DRAWS).astype(int)
    components = psi.kind.components({name: values[chosen] for name, values in flat.items()})
    count = _ERROR_FACTOR * max(len(psi.nodes) + len(psi.nodes) % 2, default_count(psi.target.dim))
    many = moment_matched_nodes(count, psi.target.dim, seed + 1)
    log_weight = psi.lam * (psi.expected_log_density(components, many) - psi.expected_log_density(components))
    log_share = log_effective_size(log_weight) - np.log(len(log_weight))
    return float(np.sqrt(max(0.0, -log_share)))
