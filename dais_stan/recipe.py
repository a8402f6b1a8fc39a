"""A target written down, so that a saved fit can be drawn from again on another day or machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .engines.program import StanProgram
from .errors import TargetError
from .target import Target


def write_recipe(target: Target) -> dict[str, Any] | None:
    """The program, its included files and its data as plain JSON values; None for a target of functions."""
    program = target.program
    if program is None:
        return None
    return {
        "code": program.code,
        "name": program.name,
        "path": str(program.path) if program.path else None,
        "includes": [list(pair) for pair in program.includes],
        "data": target.data_json,
        "seed": target.seed,
        # Which compiled engine serves is the other machine's affair; stanli is a choice of its own.
        "engine": "stanli" if target.engine == "stanli" else "auto",
        "autodiff_hessian": target.has_hvp,
    }


def open_recipe(recipe: dict[str, Any] | None) -> Target:
    """Open the target again; compiled only where this machine has not compiled it before.

    Raises TargetError where there is no recipe, for a target made of functions.
    """
    if recipe is None:
        raise TargetError("this fit is of a target made of functions: give the target when loading it")
    program = StanProgram(
        code=recipe["code"],
        name=recipe["name"],
        path=Path(recipe["path"]) if recipe["path"] else None,
        includes=tuple((name, text) for name, text in recipe["includes"]),
    )
    return Target.from_program(
        program,
        recipe["data"],
        seed=recipe["seed"],
        engine=recipe["engine"],
        autodiff_hessian=recipe["autodiff_hessian"],
    )
