"""How a Stan program is held against a closed form, whatever transforms its version of Stan uses."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from closed_forms import ClosedForm, Data

from dais_stan.target import Target

# Central difference of order 8: sum_k WEIGHTS[k] f(x + OFFSETS[k] h) / h, error of order h^8.
STEP = 0.01
OFFSETS = np.array([-4, -3, -2, -1, 1, 2, 3, 4])
WEIGHTS = np.array([1 / 280, -4 / 105, 1 / 5, -4 / 5, 4 / 5, -1 / 5, 4 / 105, -1 / 280])


def differentiate(
    function: Callable[[np.ndarray], np.ndarray], z: np.ndarray, directions: np.ndarray
) -> np.ndarray:
    """Derivatives of a batch function along each direction (rows), by one call: (directions, *outputs)."""
    points = z + STEP * OFFSETS[None, :, None] * directions[:, None, :]
    values = function(points.reshape(-1, z.size))
    return np.tensordot(
        WEIGHTS / STEP, values.reshape(len(directions), len(OFFSETS), *values.shape[1:]), (0, 1)
    )


def parameters(target: Target, z: np.ndarray) -> list[dict[str, np.ndarray]]:
    """The declared parameters at each point of a batch."""
    names = [name for name, variable in target.variables.items() if variable.block == "parameters"]
    batch = target.constrain(z, generated=False)
    return [{name: batch[name][i] for name in names} for i in range(len(z))]


def expected_log_density(target: Target, form: ClosedForm, data: Data, z: np.ndarray) -> np.ndarray:
    """The closed form at unconstrained points (N, D), with the Jacobian by differences."""
    return np.array([_expected_at(target, form, data, point) for point in z])


def _expected_at(target: Target, form: ClosedForm, data: Data, z: np.ndarray) -> float:
    on_sphere = [form.sphere != "" and name.startswith(form.sphere + ".") for name in target.names]

    def free(points: np.ndarray) -> np.ndarray:
        declared = np.array([form.free(values) for values in parameters(target, points)])
        return np.concatenate([declared, points[:, on_sphere]], axis=1)

    jacobian = differentiate(free, z, np.eye(target.dim))
    radius = 0.5 * np.sum(z[on_sphere] ** 2)
    density = form.log_density(parameters(target, z[None])[0], data)
    return density + np.linalg.slogdet(jacobian)[1] - radius


def drops_constants(target: Target) -> bool:
    """Whether the engine leaves out the constants of this program's `~` statements."""
    statements = [line.split("//")[0] for line in target.program.code.splitlines()]
    return not target.normalized and any("~" in statement for statement in statements)


def relative_error(actual: np.ndarray, expected: np.ndarray) -> float:
    return float(np.max(np.abs(actual - expected)) / np.max(np.abs(expected)))
