"""The exceptions that a user of dais-stan meets. Each message is one clear sentence."""

from __future__ import annotations


class DaisStanError(Exception):
    """Base of every error that dais-stan raises about a user's program, data or machine."""


class EngineError(DaisStanError):
    """No usable Stan, no compiler, or an engine that lacks what was asked of it."""


class StanCompileError(DaisStanError):
    """A Stan program that stanc or the C++ compiler refuses; the message is the compiler's own."""


class TargetError(DaisStanError):
    """A program and its data that give no usable log density; the message names the variable."""


class FlowError(DaisStanError):
    """Parameters of a flow that give no invertible map."""
