"""Normalising flows: invertible maps with hand-written derivatives, one kind a file."""

from .base import Flow, FlowParams, Passed
from .chain import Chain
from .iaf import IAF
from .planar import Planar
from .sylvester import HouseholderSylvester, OrthogonalSylvester, TriangularSylvester

__all__ = [
    "IAF",
    "Chain",
    "Flow",
    "FlowParams",
    "HouseholderSylvester",
    "OrthogonalSylvester",
    "Passed",
    "Planar",
    "TriangularSylvester",
]
