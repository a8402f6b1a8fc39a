"""The stanli interpreter: a Stan program without a C++ compiler, for quick looks and fast tests.

What it cannot do: keep the constants of the density (``propto=False``, so no evidence), and second
derivatives.
"""

from __future__ import annotations

import importlib.util
import tempfile
from pathlib import Path

import bridgestan

from dais_stan.engines.program import ProgramInfo, StanProgram
from dais_stan.errors import EngineError, StanCompileError, TargetError


class StanliEngine:
    """Interpreted Stan.

    Args:
        stanc: a stanc program, which says what the program declares.

    Raises:
        EngineError: stanli is not installed.
    """

    name = "stanli"
    normalized = False

    def __init__(self, stanc: Path) -> None:
        if importlib.util.find_spec("stanli") is None:
            raise EngineError('engine="stanli" needs the stanli package: pip install "dais-stan[stanli]".')
        self._stanc = stanc

    @property
    def stan_version(self) -> str:
        """Version of the interpreter, which follows Stan's language but is not Stan."""
        import stanli

        return f"stanli {stanli.__version__}"

    def info(self, program: StanProgram) -> ProgramInfo:
        """What the program declares."""
        return program.info(self._stanc)

    def open(self, program: StanProgram, data_json: str, seed: int) -> bridgestan.StanModel:
        """The program with its data, ready to be evaluated.

        Raises:
            StanCompileError: stanc or the interpreter refuses the program.
            TargetError: the program refuses the data.
            EngineError: the program has a tuple or a complex variable.
        """
        import stanli

        info = program.info(self._stanc)  # a wrong program gets stanc's message, as on every other engine
        _refuse_unsupported_types(program, info)
        with tempfile.TemporaryDirectory(prefix="dais-stan-") as scratch:
            _, include_root = program.write(Path(scratch))
            try:
                mir = stanli.stan_to_mir(program.code, include_paths=[include_root])
            except RuntimeError as error:
                raise StanCompileError(f"stanli cannot run {program.file_name}: {error}") from error
        try:
            return stanli.bridgestan_model(
                mir=mir, data=data_json or "{}", name=f"{program.name}_model", seed=seed
            )
        except RuntimeError as error:
            raise TargetError(f"{program.file_name}: {error}") from error


def _refuse_unsupported_types(program: StanProgram, info: ProgramInfo) -> None:
    """stanli's own message about tuples and complex numbers does not say which variable it means."""
    for block in (info.inputs, info.parameters, info.transformed_parameters, info.generated_quantities):
        for name, declaration in block.items():
            if declaration.type not in ("int", "real"):
                kind = "complex" if declaration.type == "complex" else "a tuple"
                raise EngineError(
                    f'engine="stanli" cannot run {program.file_name}: variable "{name}" is {kind}; '
                    'use a compiled engine (engine="auto").'
                )
