"""One posterior against another: standardised errors of means and standard deviations, and a verdict."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from . import arviz_io
from .arviz_io import arviz

#: Worst standardised errors below the first are as good as a long NUTS run's; above the second, bad.
GOOD, POOR = 0.1, 0.3


class HasGroups(Protocol):
    """A Fit or a NutsFit."""

    def groups(self) -> arviz_io.Groups: ...


@dataclass(frozen=True)
class Comparison:
    """Scalars that both posteriors have, each array in the order of ``names``.

    ``mean_error`` is (mean_a - mean_b) / sd_b, ``log_sd_ratio`` log(sd_a / sd_b), and ``mcse`` the Monte
    Carlo standard error of ``mean_error``. A scalar that is constant in b (sd 0) is left out and listed in
    ``constant``; those that only one side has are in ``only_a`` and ``only_b``.
    """

    names: list[str]
    mean_a: NDArray
    sd_a: NDArray
    mean_b: NDArray
    sd_b: NDArray
    mcse: NDArray
    constant: list[str]
    only_a: list[str]
    only_b: list[str]

    @property
    def mean_error(self) -> NDArray:
        return (self.mean_a - self.mean_b) / self.sd_b

    @property
    def log_sd_ratio(self) -> NDArray:
        with np.errstate(divide="ignore"):  # a spread of zero is infinitely too small
            return np.log(self.sd_a / self.sd_b)

    @property
    def worst_mean_error(self) -> tuple[str, float]:
        """Name and value of the mean error of largest size."""
        return self._worst(self.mean_error)

    @property
    def worst_log_sd_ratio(self) -> tuple[str, float]:
        """Name and value of the log sd ratio of largest size."""
        return self._worst(self.log_sd_ratio)

    def _worst(self, errors: NDArray) -> tuple[str, float]:
        index = int(np.argmax(np.abs(errors)))
        return self.names[index], float(errors[index])

    def verdict(self) -> str:
        """The comparison in words."""
        (mean_name, mean_error), (sd_name, sd_error) = self.worst_mean_error, self.worst_log_sd_ratio
        worst = max(abs(mean_error), abs(sd_error))
        word = "agree" if worst < GOOD else "agree roughly" if worst < POOR else "disagree"
        text = (
            f"A and B {word}: the worst mean differs by {mean_error:+.2f} sd ({mean_name}), "
            f"the worst sd by a factor {np.exp(sd_error):.2f} ({sd_name})"
        )
        noise = float(self.mcse.max())
        if noise > GOOD / 2:
            text += f"; draws are too few to see differences of means below {2 * noise:.2f} sd"
        return text + "."

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and floats, for JSON."""
        columns = ("mean_a", "sd_a", "mean_b", "sd_b", "mean_error", "log_sd_ratio", "mcse")
        table = {column: getattr(self, column).tolist() for column in columns}
        return {
            "scalars": [
                {"name": name, **{column: table[column][i] for column in columns}}
                for i, name in enumerate(self.names)
            ],
            "worst_mean_error": dict(zip(("name", "value"), self.worst_mean_error, strict=True)),
            "worst_log_sd_ratio": dict(zip(("name", "value"), self.worst_log_sd_ratio, strict=True)),
            "constant": self.constant,
            "only_a": self.only_a,
            "only_b": self.only_b,
            "verdict": self.verdict(),
        }


Posterior = str | os.PathLike[str] | HasGroups | xr.Dataset


def compare(a: Posterior, b: Posterior) -> Comparison:
    """Compare two posteriors, b being the reference.

    Each is a netCDF file, a Fit, a NutsFit, an ArviZ object's posterior dataset, or anything with a
    ``posterior`` group. Raises ValueError where they have no scalar in common.
    """
    scalars_a, scalars_b = arviz_io.scalars(_posterior(a)), arviz_io.scalars(_posterior(b))
    shared = [name for name in scalars_b if name in scalars_a]
    if not shared:
        raise ValueError(
            f"the two posteriors have no scalar in common: A has {_few(scalars_a)}, B has {_few(scalars_b)}"
        )
    varying = [name for name in shared if np.ptp(scalars_b[name]) > 0]
    if not varying:
        raise ValueError("every scalar that the two posteriors share is constant in B")
    stats_a = np.array([_moments(scalars_a[name]) for name in varying])
    stats_b = np.array([_moments(scalars_b[name]) for name in varying])
    return Comparison(
        names=varying,
        mean_a=stats_a[:, 0],
        sd_a=stats_a[:, 1],
        mean_b=stats_b[:, 0],
        sd_b=stats_b[:, 1],
        mcse=np.hypot(stats_a[:, 2], stats_b[:, 2]) / stats_b[:, 1],
        constant=[name for name in shared if name not in varying],
        only_a=[name for name in scalars_a if name not in scalars_b],
        only_b=[name for name in scalars_b if name not in scalars_a],
    )


def _posterior(source: Any) -> xr.Dataset:
    if isinstance(source, str | os.PathLike):
        return arviz_io.read(Path(source))["posterior"]
    if isinstance(source, xr.Dataset):
        return source
    if hasattr(source, "groups") and callable(source.groups) and not hasattr(source, "posterior"):
        return source.groups()["posterior"]
    posterior = source["posterior"]
    return posterior.to_dataset() if hasattr(posterior, "to_dataset") else posterior


def _moments(values: NDArray) -> tuple[float, float, float]:
    """Mean, standard deviation and Monte Carlo standard error of the mean of draws (chain, draw)."""
    sd = float(values.std(ddof=1))
    ess = float(arviz.ess(values, method="mean")) if sd > 0 and values.shape[1] >= 4 else values.size
    return float(values.mean()), sd, sd / np.sqrt(max(ess, 1.0))


def _few(names: Any, most: int = 5) -> str:
    listed = list(names)
    return ", ".join(listed[:most]) + (", ..." if len(listed) > most else "")
