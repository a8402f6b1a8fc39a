"""Where a compiled Stan program comes from. Nothing outside this package knows which engine it is."""

from __future__ import annotations

from typing import Protocol

import bridgestan

from dais_stan.engines.bridgestan import BridgeStanEngine, find_bridgestan
from dais_stan.engines.program import ProgramInfo, StanProgram
from dais_stan.engines.pypi_stan import layout
from dais_stan.engines.stanli import StanliEngine
from dais_stan.errors import EngineError


class Engine(Protocol):
    """A way to make a Stan program with its data into a ``bridgestan.StanModel``."""

    name: str
    """"bridgestan", "pypi" or "stanli"."""

    normalized: bool
    """Whether the constants of the density can be kept (``propto=False``)."""

    @property
    def stan_version(self) -> str:
        """Version of Stan, for a fit's record."""

    def info(self, program: StanProgram) -> ProgramInfo:
        """What the program declares, by block.

        Raises:
            StanCompileError: with stanc's own message.
        """

    def open(self, program: StanProgram, data_json: str, seed: int) -> bridgestan.StanModel:
        """The program with its data, compiled first if it has not been seen before.

        Raises:
            StanCompileError: stanc or the C++ compiler refuses the program.
            TargetError: the program refuses the data; the message is Stan's own.
            EngineError: there is no compiler.
        """


def find_engine(name: str = "auto", autodiff_hessian: bool = False) -> Engine:
    """Choose an engine.

    Args:
        name: "auto" (an installed BridgeStan if there is one, else "pypi"), "bridgestan", "pypi" (compiled
            from the httpstan wheel) or "stanli" (interpreted).
        autodiff_hessian: compile so that Hessian-vector products are by automatic differentiation rather
            than by differences of gradients. Not every Stan function can (the ODE solvers cannot).

    Raises:
        ValueError: unknown name, or ``autodiff_hessian`` with stanli.
        EngineError: the engine is not installed.
    """
    if name not in ("auto", "bridgestan", "pypi", "stanli"):
        raise ValueError(f'engine must be "auto", "bridgestan", "pypi" or "stanli", not {name!r}.')
    installed = find_bridgestan() if name != "pypi" else None
    if name == "stanli":
        if autodiff_hessian:
            raise ValueError('autodiff_hessian=True is not possible with engine="stanli".')
        home = installed if installed and (installed / "bin" / "stanc").exists() else layout.bridgestan_home()
        return StanliEngine(home / "bin" / "stanc")
    if installed:
        return BridgeStanEngine("bridgestan", installed, autodiff_hessian)
    if name == "bridgestan":
        raise EngineError(
            'no BridgeStan was found: set BRIDGESTAN to its folder, or use engine="pypi" (Stan from PyPI).'
        )
    return BridgeStanEngine("pypi", layout.bridgestan_home(), autodiff_hessian)
