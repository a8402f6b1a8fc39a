"""What a variational family q(z; params) offers to every objective."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from numpy.typing import NDArray


class Sample(NamedTuple):
    """Draws from q made from standard normal noise.

    ``z`` is (N, D), ``log_q`` is (N,), and ``tape`` is what the family's pullback needs.
    """

    z: NDArray
    log_q: NDArray
    tape: Any


class Family(Protocol):
    """A reparametrised density q(z; params) on R^D with a flat parameter vector of length ``n_params``."""

    name: str
    dim: int
    n_params: int
    options: dict[str, Any]  # what makes this family again, beside its name and dimension

    def initial(self) -> NDArray:
        """Parameters of the standard normal, the start in whitened coordinates; shape (n_params,)."""

    def sample(self, params: NDArray, eps: NDArray) -> Sample:
        """Transform standard normal noise ``eps`` (N, D) into draws with their log density."""

    def pullback(self, params: NDArray, tape: Any, z_bar: NDArray, log_q_bar: NDArray | None) -> NDArray:
        """Gradient of sum(z_bar * z) + sum(log_q_bar * log_q) in the parameters, at fixed noise.

        ``z_bar`` is (N, D); ``log_q_bar`` is (N,), or None for zeros. Returns (n_params,).
        """

    def score(self, params: NDArray, tape: Any) -> NDArray:
        """Gradient of log q in z at the draws of ``tape``, shape (N, D)."""

    def noise(self, params: NDArray, z: NDArray) -> NDArray:
        """The standard normal noise (N, D) from which ``sample`` would make the points z (N, D)."""

    def log_prob(self, params: NDArray, z: NDArray) -> NDArray:
        """Log density at any points z (N, D), shape (N,)."""

    def moments(self, params: NDArray) -> tuple[NDArray, NDArray]:
        """Mean (D,) and a factor of the covariance: standard deviations (D,) or a lower triangle (D, D)."""
