"""Variational families q(z) on the unconstrained space."""

from .base import Family, Sample
from .gaussian import FullRank, MeanField

#: The variational methods, each by its family's name.
FAMILIES: dict[str, type[MeanField] | type[FullRank]] = {"meanfield": MeanField, "fullrank": FullRank}

__all__ = ["FAMILIES", "Family", "FullRank", "MeanField", "Sample"]
