"""The path from sampling to variational inference: mixtures over a grid of lambdas, and a choice of one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dais_stan.checks import chosen_seed
from dais_stan.target import Target

from .information import KLError, kl_error
from .mixture import Mixture
from .sampling import mean_field_guess, sample

#: Evenly spaced in the logarithm from sampling to 10, where mixtures are VI in all but name.
DEFAULT_LAMBDAS = (1.0, 1.155, 1.334, 1.540, 1.778, 2.371, 3.162, 4.217, 5.623, 10.0)


class SquaredError(NamedTuple):
    """The estimated squared error of the mean of f over T components: squared bias and variance.

    ``se`` is the standard error of ``error``.
    """

    error: float
    se: float
    squared_bias: float
    variance: float


class Choice(NamedTuple):
    """The lambda with the least error, its mixture, and the errors at all lambdas."""

    lam: float
    mixture: Mixture
    errors: list[KLError] | list[SquaredError]


@dataclass(frozen=True)
class LambdaPath:
    """Mixtures of one target at growing lambdas."""

    mixtures: Sequence[Mixture]

    @property
    def lams(self) -> NDArray:
        """The lambdas, (L,)."""
        return np.array([mixture.lam for mixture in self.mixtures])

    def kl_errors(self, components: int, log_evidence: float = 0.0) -> list[KLError]:
        """E[KL(m_T || p)] for T ``components`` at each lambda, up to the log evidence."""
        return [kl_error(mixture, components, log_evidence) for mixture in self.mixtures]

    def squared_errors(self, f: Callable[[NDArray], NDArray], components: int) -> list[SquaredError]:
        """Squared error of the mean of f over T independent ``components``, averaged over f's values.

        The truth is the expectation at lambda = 1, which is sampling and so unbiased; what its own Monte
        Carlo error adds to the squared bias is taken off again. Raises ValueError where lambda = 1 is not on
        the path.
        """
        if self.mixtures[0].lam != 1.0:
            raise ValueError("squared errors need the path to begin at lambda = 1, which is the truth there")
        truth = self.mixtures[0].expect(f)
        return [_squared_error(m, f, components, truth.value, truth.se) for m in self.mixtures]

    def choose(self, components: int, f: Callable[[NDArray], NDArray] | None = None) -> Choice:
        """The lambda that is best for T ``components``, by divergence or by the squared error of f."""
        errors: list[KLError] | list[SquaredError] = (
            self.kl_errors(components) if f is None else self.squared_errors(f, components)
        )
        return self.least(errors)

    def least(self, errors: list[KLError] | list[SquaredError]) -> Choice:
        """The lambda with the least of these errors, one for each lambda."""
        best = int(np.argmin([entry.error for entry in errors]))
        return Choice(self.mixtures[best].lam, self.mixtures[best], errors)

    def schedule(
        self, counts: Iterable[int], f: Callable[[NDArray], NDArray] | None = None
    ) -> list[tuple[int, float]]:
        """The lambda to use once T components have been asked for, for each T of ``counts`` in growing order.

        The best lambda falls as T grows: the variance, which a larger lambda saves, falls with T, and the
        bias, which it costs, does not. What noise puts out of order is held at the lambda before.
        """
        best = np.array([self.choose(count, f).lam for count in sorted(counts)])
        return list(zip(sorted(counts), np.minimum.accumulate(best).tolist(), strict=True))


def _squared_error(
    mixture: Mixture, f: Callable[[NDArray], NDArray], components: int, truth: NDArray, truth_se: NDArray
) -> SquaredError:
    values = mixture.component_values(f)
    found = mixture.mean_of(values)
    gap = found.value - truth
    own = mixture.lam == 1.0
    bias = 0.0 if own else float(np.mean(gap**2 - found.se**2 - truth_se**2))
    variance = float(np.mean(values.var(axis=0, ddof=1))) / components
    # delta method for the squared bias; the variance is known far better
    se = 0.0 if own else float(2.0 * np.sqrt(np.sum(gap**2 * (found.se**2 + truth_se**2))) / gap.size)
    return SquaredError(max(bias, 0.0) + variance, se, max(bias, 0.0), variance)


def lambda_path(
    target: Target,
    lambdas: Sequence[float] = DEFAULT_LAMBDAS,
    *,
    seed: int | None = None,
    executor: Executor | None = None,
    **options: Any,
) -> LambdaPath:
    """A mixture for each lambda, all started from one mean-field fit.

    ``executor`` runs the lambdas side by side (processes, or a cluster); without one they run in turn, the
    chains of each side by side. Results do not depend on it. ``options`` are those of ``infmix.sample``.
    """
    lams = sorted(set(map(float, lambdas)))
    if not lams:
        raise ValueError("lambdas must hold at least one lambda, found none")
    seed = chosen_seed(seed)
    states = np.random.SeedSequence(seed).generate_state(len(lams)) % 2**31
    guess = options.pop("guess", None) or mean_field_guess(target, seed)
    run = partial(_one, target, guess, options)
    results = (executor.map if executor else map)(run, lams, map(int, states))
    # a mixture from another process brings its own copy of the target
    return LambdaPath([replace(m, psi=replace(m.psi, target=target)) for m in results])


def _one(target: Target, guess: Any, options: dict[str, Any], lam: float, seed: int) -> Mixture:
    return sample(target, lam, seed=seed, guess=guess, **options)


def choose_lambda(
    target: Target,
    components: int,
    f: Callable[[NDArray], NDArray] | None = None,
    lambdas: Sequence[float] = DEFAULT_LAMBDAS,
    **options: Any,
) -> Choice:
    """The lambda with the least estimated error for a budget of T ``components``, and the evidence for it.

    The error is the divergence of T components from the target, or with ``f`` the squared error of f's mean.
    ``options`` are those of ``lambda_path``.
    """
    return lambda_path(target, lambdas, **options).choose(components, f)
