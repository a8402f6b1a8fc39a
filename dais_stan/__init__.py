"""Variational and annealed approximations of any Stan posterior, with the evidence and its error."""

__version__ = "0.1.0"
