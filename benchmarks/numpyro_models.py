"""Stan programs written again in NumPyro, for comparisons of speed."""

from __future__ import annotations

import json
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from dais_stan import resources


def eight_schools() -> Callable[[], None]:
    """``eight_schools_noncentered.stan`` with its data."""
    data = json.loads((resources.stan_models() / "eight_schools_noncentered.data.json").read_text())
    y, sigma = np.array(data["y"], dtype=float), np.array(data["sigma"], dtype=float)

    def model() -> None:
        mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
        tau = numpyro.sample("tau", dist.HalfCauchy(5.0))
        with numpyro.plate("schools", len(y)):
            trans = numpyro.sample("theta_trans", dist.Normal(0.0, 1.0))
            numpyro.sample("y", dist.Normal(mu + tau * trans, sigma), obs=y)

    return model


def logistic(x: np.ndarray, y: np.ndarray) -> Callable[[], None]:
    """``logistic_regression.stan`` with X = x (N, K) and labels y (N,)."""

    def model() -> None:
        alpha = numpyro.sample("alpha", dist.Normal(0.0, 1.0))
        beta = numpyro.sample("beta", dist.Normal(jnp.zeros(x.shape[1]), 1.0).to_event(1))
        with numpyro.plate("rows", len(y)):
            numpyro.sample("y", dist.Bernoulli(logits=alpha + x @ beta), obs=y)

    return model
