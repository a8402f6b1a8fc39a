"""Variational families q(z) on the unconstrained space."""

from collections.abc import Callable
from functools import partial
from typing import Any

from .base import Family, Sample
from .flow_family import FLOWS, FlowFamily
from .gaussian import FullRank, MeanField

#: The Gaussians, each by its name, which is also that of its ELBO's maximiser among the methods.
GAUSSIANS: dict[str, type[MeanField] | type[FullRank]] = {"meanfield": MeanField, "fullrank": FullRank}

#: Name -> (dimension, and for a flow ``flows``, ``columns`` and ``base``) -> family.
FAMILIES: dict[str, Callable[..., Any]] = {
    **GAUSSIANS,
    **{kind: partial(FlowFamily, kind) for kind in FLOWS},
}

__all__ = ["FAMILIES", "FLOWS", "GAUSSIANS", "Family", "FlowFamily", "FullRank", "MeanField", "Sample"]
