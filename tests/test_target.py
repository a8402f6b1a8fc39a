"""Target: values against closed forms, batches, threads, the failure policy, and the program's variables."""

from __future__ import annotations

import logging
import multiprocessing
import pickle
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import gammaln

from dais_stan.engines import batch
from dais_stan.errors import EngineError, TargetError
from dais_stan.target import Target
from dais_stan.variables import named_variables

PROGRAMS = Path(__file__).with_name("stan")
SKEWED_DATA = {"shape": 2.5, "rate": 1.5}
ENGINES = ["stanli", "auto"]


def open_target(name: str, engine: str = "stanli", **options: Any) -> Target:
    return Target.from_stan(PROGRAMS / f"{name}.stan", engine=engine, **options)


def some_points(n: int, dim: int, scale: float = 1.0) -> np.ndarray:
    return np.random.default_rng(5).normal(0, scale, (n, dim))


def skewed_log_density(z: np.ndarray) -> np.ndarray:
    """Closed form of skewed_correlated.stan with its constants, at z = (log scale, x1, x2)."""
    a, b = SKEWED_DATA.values()
    log_s, x1, x2 = z.T
    gamma = a * np.log(b) - gammaln(a) + (a - 1) * log_s - b * np.exp(log_s) + log_s
    error = (x2 - 2 * x1) * np.exp(-log_s)
    return gamma - 0.5 * x1**2 - log_s - 0.5 * error**2 - np.log(2 * np.pi)


def skewed_gradient(z: np.ndarray) -> np.ndarray:
    a, b = SKEWED_DATA.values()
    log_s, x1, x2 = z.T
    s, residual = np.exp(log_s), x2 - 2 * x1
    return np.stack(
        [a - b * s - 1 + (residual / s) ** 2, -x1 + 2 * residual / s**2, -residual / s**2], axis=1
    )


def skewed_hessian(z: np.ndarray) -> np.ndarray:
    log_s, x1, x2 = z.T
    s, residual = np.exp(log_s), x2 - 2 * x1
    hessian = np.empty((len(z), 3, 3))
    hessian[:, 0, 0] = -SKEWED_DATA["rate"] * s - 2 * (residual / s) ** 2
    hessian[:, 0, 1] = hessian[:, 1, 0] = -4 * residual / s**2
    hessian[:, 0, 2] = hessian[:, 2, 0] = 2 * residual / s**2
    hessian[:, 1, 1] = -1 - 4 / s**2
    hessian[:, 1, 2] = hessian[:, 2, 1] = 2 / s**2
    hessian[:, 2, 2] = -1 / s**2
    return hessian


def skewed_functions(with_hvp: bool = False) -> Target:
    return Target.from_functions(
        lambda z: (skewed_log_density(z), skewed_gradient(z)),
        3,
        hvp=(lambda z, v: np.einsum("nij,nj->ni", skewed_hessian(z), v)) if with_hvp else None,
    )


def python_loop(name: str, monkeypatch: pytest.MonkeyPatch, **options: Any) -> Target:
    """A target on a machine without a C++ compiler."""

    def no_compiler() -> Any:
        raise EngineError("There is no C++ compiler.")

    monkeypatch.setattr(batch, "batch_library", no_compiler)
    target = open_target(name, **options)
    assert isinstance(target._batch, batch.PythonLoop)
    return target


# Values -------------------------------------------------------------------------------------------------


def test_values_and_gradients_equal_the_closed_form() -> None:
    target = open_target("skewed_correlated", data=SKEWED_DATA)
    z = some_points(20, 3)
    value, gradient = target.log_density_gradient(z)
    expected = skewed_log_density(z)
    expected += value[0] - expected[0]  # stanli drops the constants, which are one number
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    np.testing.assert_allclose(gradient, skewed_gradient(z), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(target.log_density(z), value, rtol=1e-12)


def test_constants_are_kept_by_a_compiled_engine_and_dropped_by_stanli() -> None:
    for engine, normalized, constant in (("auto", True, -0.5 * np.log(2 * np.pi)), ("stanli", False, 0.0)):
        target = Target.from_stan(PROGRAMS / "generated.stan", engine=engine)  # a standard normal
        assert target.normalized == normalized
        assert target.log_density([0.0]) == pytest.approx(constant, abs=1e-15)


@pytest.mark.parametrize(
    "make", [lambda: open_target("skewed_correlated", data=SKEWED_DATA), skewed_functions]
)
def test_hvp_by_differences(make: Callable[[], Target]) -> None:
    target = make()
    z, v = some_points(8, 3), some_points(8, 3, scale=100.0)[::-1]
    expected = np.einsum("nij,nj->ni", skewed_hessian(z), v)
    assert not target.has_hvp
    np.testing.assert_allclose(target.hvp(z, v), expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())
    assert (target.counts.hvp, target.counts.gradient) == (8, 16)
    np.testing.assert_array_equal(target.hvp(z[0], np.zeros(3)), np.zeros(3))


def test_hvp_of_functions_is_used() -> None:
    target = skewed_functions(with_hvp=True)
    z, v = some_points(8, 3), some_points(8, 3)[::-1]
    expected = np.einsum("nij,nj->ni", skewed_hessian(z), v)
    np.testing.assert_allclose(target.hvp(z, v), expected, rtol=1e-13)
    assert target.has_hvp
    assert (target.counts.hvp, target.counts.gradient) == (8, 0)


@pytest.mark.slow  # test_stan_models.py has the quick one
def test_hvp_by_autodiff() -> None:
    target = open_target("skewed_correlated", "auto", data=SKEWED_DATA, autodiff_hessian=True)
    z, v = some_points(8, 3), some_points(8, 3)[::-1]
    expected = np.einsum("nij,nj->ni", skewed_hessian(z), v)
    assert target.has_hvp
    np.testing.assert_allclose(target.hvp(z, v), expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(target.hvp(z[3], v[3]), expected[3], rtol=1e-10, atol=1e-12)
    assert (target.counts.hvp, target.counts.gradient) == (9, 0)


# One point, a batch, threads ----------------------------------------------------------------------------


def test_a_point_gives_what_a_batch_gives() -> None:
    target = open_target("skewed_correlated", data=SKEWED_DATA)
    z, v = some_points(5, 3), some_points(5, 3)[::-1]
    values, gradients = target.log_density_gradient(z)
    products = target.hvp(z, v)
    for i in range(5):
        value, gradient = target.log_density_gradient(z[i])
        assert isinstance(value, float)
        assert (value, gradient.tolist()) == (values[i], gradients[i].tolist())
        assert target.log_density(z[i]) == target.log_density(z)[i]
        np.testing.assert_array_equal(target.hvp(z[i], v[i]), products[i])


def test_any_memory_layout_is_read_rightly() -> None:
    target = open_target("skewed_correlated", data=SKEWED_DATA)
    z = some_points(6, 3)
    expected = target.log_density(z)
    frozen = z.copy()
    frozen.flags.writeable = False
    for other in (np.asfortranarray(z), z.tolist(), frozen, np.repeat(z, 2, axis=0)[::2]):
        np.testing.assert_array_equal(target.log_density(other), expected)


def test_an_empty_batch_gives_empty_results() -> None:
    target = open_target("skewed_correlated", data=SKEWED_DATA)
    nothing = np.empty((0, 3))
    value, gradient = target.log_density_gradient(nothing)
    assert (value.shape, gradient.shape, target.hvp(nothing, nothing).shape) == ((0,), (0, 3), (0, 3))
    assert target.log_density(nothing).shape == (0,)
    assert {name: v.shape for name, v in target.constrain(nothing).items()} == {"scale": (0,), "x": (0, 2)}


@pytest.mark.parametrize("z", [np.zeros(2), np.zeros((4, 2)), np.zeros((2, 2, 3)), 0.0])
def test_a_wrong_shape_is_refused(z: Any) -> None:
    target = open_target("skewed_correlated", data=SKEWED_DATA)
    with pytest.raises(ValueError, match=r"z must have shape \(3,\) or \(N, 3\)"):
        target.log_density(z)
    with pytest.raises(ValueError, match="v must have"):
        target.hvp(np.zeros((3, 3)), np.zeros((2, 3)))


def test_threads_change_nothing() -> None:
    z = some_points(2000, 3)
    expected = open_target("skewed_correlated", data=SKEWED_DATA, threads=1).log_density_gradient(z)
    for threads in (2, 5):
        target = open_target("skewed_correlated", data=SKEWED_DATA, threads=threads)
        for _ in range(20):  # the share of each thread differs from call to call
            value, gradient = target.log_density_gradient(z)
            np.testing.assert_array_equal(value, expected[0])
            np.testing.assert_array_equal(gradient, expected[1])


def test_targets_may_be_used_from_several_threads_at_once() -> None:
    from concurrent.futures import ThreadPoolExecutor

    target = open_target("skewed_correlated", data=SKEWED_DATA, threads=2)
    z = some_points(500, 3)
    expected = target.log_density_gradient(z)[1]
    with ThreadPoolExecutor(4) as pool:
        for _, gradient in pool.map(lambda _: target.log_density_gradient(z), range(40)):
            np.testing.assert_array_equal(gradient, expected)
    assert target.counts.gradient == 41 * 500


def test_functions_and_stan_agree() -> None:
    stan, functions = open_target("skewed_correlated", data=SKEWED_DATA), skewed_functions()
    z = some_points(4, 3)
    np.testing.assert_allclose(functions.log_density_gradient(z)[1], stan.log_density_gradient(z)[1])
    assert functions.names == ("z.1", "z.2", "z.3")
    assert functions.constrain(z)["z"].tolist() == z.tolist()
    np.testing.assert_array_equal(functions.unconstrain({"z": z[1]}), z[1])


# The failure policy -------------------------------------------------------------------------------------

FAILURES = {
    1.5: "x lies in the rejected interval",
    2.5: "the log density is -inf",
    3.5: "the log density is NaN",
    4.5: "Scale parameter is -1, but must be positive",
    5.5: "is not finite",
    6.5: "the log density is +inf",
}


@pytest.mark.parametrize("how", ["stanli", "auto", "python"])
@pytest.mark.parametrize(("x", "reason"), FAILURES.items())
def test_each_failure_is_minus_infinity_with_zero_gradient_and_counted(
    x: float, reason: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = python_loop("failures", monkeypatch) if how == "python" else open_target("failures", how)
    value, gradient = target.log_density_gradient([[0.5], [x], [-0.5]])
    assert value.tolist() == [-0.125, -np.inf, -0.125]
    assert gradient.tolist() == [[-0.5], [0.0], [0.5]]
    assert (target.counts.gradient, target.counts.rejected) == (3, 1)
    assert reason in target.counts.last_rejection
    if x != 5.5:  # there only the gradient fails
        assert target.log_density([x]) == -np.inf
        assert target.counts.rejected == 2
    np.testing.assert_array_equal(target.hvp([[x]], [[1.0]]), [[0.0]])


def test_the_reason_is_that_of_the_first_point_whatever_the_threads() -> None:
    z = np.full((4000, 1), 0.5)
    z[700:] = 2.5
    z[600:700] = 1.5
    target = open_target("failures", threads=2)
    target.log_density_gradient(np.zeros((1000, 1)))
    for _ in range(10):
        target.log_density_gradient(z)
        assert target.counts.last_rejection == FAILURES[1.5]
    assert target.counts.rejected == 10 * 3400


def test_failures_of_functions_are_counted_too() -> None:
    def log_density_gradient(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.array([0.0, -np.inf, np.nan, 1.0]), np.array([[1.0], [2.0], [3.0], [np.nan]])

    target = Target.from_functions(log_density_gradient, 1)
    value, gradient = target.log_density_gradient(np.zeros((4, 1)))
    assert value.tolist() == [0.0, -np.inf, -np.inf, -np.inf]
    assert gradient.tolist() == [[1.0], [0.0], [0.0], [0.0]]
    assert (target.counts.rejected, target.counts.last_rejection) == (3, "the log density is -inf")


def test_a_loop_in_python_gives_what_the_compiled_batch_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = open_target("skewed_correlated", data=SKEWED_DATA)
    loop = python_loop("skewed_correlated", monkeypatch, data=SKEWED_DATA)
    z = some_points(7, 3)
    for ours, theirs in zip(loop.log_density_gradient(z), compiled.log_density_gradient(z), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(loop.log_density(z), compiled.log_density(z))


# Starting points ----------------------------------------------------------------------------------------


def test_a_start_is_finite_and_repeats_with_its_seed() -> None:
    target = open_target("failures")
    z = target.find_finite_start(np.random.default_rng(1), radius=6.0)
    assert np.isfinite(target.log_density(z))
    np.testing.assert_array_equal(z, target.find_finite_start(np.random.default_rng(1), radius=6.0))


def test_a_smaller_radius_is_tried_and_reported(caplog: pytest.LogCaptureFixture) -> None:
    code = "parameters { cholesky_factor_corr[40] L; } model { L ~ lkj_corr_cholesky(1); }"  # case R06
    target = Target.from_stan(stan_code=code, engine="stanli")
    with caplog.at_level(logging.INFO, "dais_stan"):
        z = target.find_finite_start(np.random.default_rng(3))
    assert np.isfinite(target.log_density(z))
    assert "no finite point at radius 2" in caplog.text


def test_no_finite_point_is_one_sentence_with_a_hint_at_bounds() -> None:
    code = "parameters { real x; } model { x ~ uniform(5, 6); }"  # case R07b
    target = Target.from_stan(stan_code=code, engine="stanli")
    with pytest.raises(TargetError, match=r"No finite point of model .*bounds .*the log density is -inf"):
        target.find_finite_start(np.random.default_rng(3))


# The program's variables --------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
def test_variables_have_their_declared_shapes_and_order(engine: str) -> None:
    target = open_target("shapes", engine, data={"N": 0, "X": np.empty((0, 3))})
    assert {name: (v.shape, v.block) for name, v in target.variables.items()} == {
        "scalar": ((), "parameters"),
        "M": ((2, 3), "parameters"),
        "v": ((2, 3), "parameters"),
        "empty": ((4, 0), "parameters"),
        "one": ((1,), "parameters"),
        "deep": ((2, 1, 3, 2), "parameters"),
        "Y": ((0, 3), "transformed_parameters"),
        "transposed": ((3, 2), "transformed_parameters"),
        "counts": ((2,), "generated_quantities"),
        "nothing": ((0, 2), "generated_quantities"),
    }
    z = some_points(4, target.dim)
    values = target.constrain(z)
    assert list(values) == list(target.variables)
    assert all(values[name].shape == (4, *v.shape) for name, v in target.variables.items())
    assert all(value.shape == target.variables[name].shape for name, value in target.constrain(z[0]).items())


def test_each_element_is_at_its_own_index() -> None:
    target = open_target("shapes", data={"N": 2, "X": np.arange(6.0).reshape(2, 3)})
    z = np.arange(float(target.dim))[None] + 100
    at = {name: z[0, i] for i, name in enumerate(target.names)}
    values = target.constrain(z)
    assert values["M"][0, 1, 2] == at["M.2.3"]
    assert values["v"][0, 1, 0] == at["v.2.1"]
    assert values["deep"][0, 1, 0, 2, 1] == at["deep.2.1.3.2"]
    np.testing.assert_array_equal(values["transposed"][0], values["M"][0].T)
    np.testing.assert_array_equal(values["Y"][0], np.arange(6.0).reshape(2, 3) + at["scalar"])
    np.testing.assert_array_equal(values["counts"], [[3, 4]])
    assert "counts" not in target.constrain(z, generated=False)


def test_parameters_go_there_and_back() -> None:
    target = open_target("shapes", data={"N": 0, "X": []})
    z = some_points(1, target.dim)[0]
    np.testing.assert_allclose(target.unconstrain(target.constrain(z)), z, rtol=1e-14)


@pytest.mark.parametrize(
    "values", [{"x": [1.0, 2.0]}, {"scale": 1.0, "x": [1.0]}, {"scale": -1.0, "x": [1, 2]}]
)
def test_values_that_are_no_point_are_refused(values: dict[str, Any]) -> None:
    target = open_target("skewed_correlated", data=SKEWED_DATA)
    with pytest.raises(TargetError, match=r"scale|x"):
        target.unconstrain(values)


def test_tuples_and_complex_numbers() -> None:
    centre = np.array([1 + 2j, 3 + 4j, 5 + 6j])
    data = {"pair": (2, [3.0, 4.0]), "list": [(5.0, [7.0]), (8.0, [10.0])], "centre": centre}
    target = open_target("tuples", "auto", data=data)
    assert {name: v.shape for name, v in target.variables.items()} == {
        "t.1": (),
        "t.2": (2,),
        "at.1": (2,),
        "at.2": (2, 2, 1),
        "z.real": (3,),
        "z.imag": (3,),
    }
    z = some_points(2, target.dim)
    values = target.constrain(z)
    quadratic = (
        (values["t.1"] - 2) ** 2
        + ((values["t.2"] - [3, 4]) ** 2).sum(1)
        + ((values["at.1"] - [5, 8]) ** 2).sum(1)
        + ((values["at.2"][..., 0] - [[7], [10]]) ** 2).sum((1, 2))
        + (np.abs(values["z.real"] + 1j * values["z.imag"] - centre) ** 2).sum(1)
    )
    expected = -0.5 * quadratic - 0.5 * target.dim * np.log(2 * np.pi)
    np.testing.assert_allclose(target.log_density(z), expected, rtol=1e-12)
    np.testing.assert_allclose(target.unconstrain({k: v[1] for k, v in values.items()}), z[1], rtol=1e-14)


def test_stanli_refuses_tuples_by_name() -> None:
    code = "parameters { tuple(real, real) t; } model { t.1 ~ std_normal(); }"  # case R13
    with pytest.raises(EngineError, match='variable "t" is a tuple; use a compiled engine'):
        Target.from_stan(stan_code=code, engine="stanli")


@pytest.mark.parametrize("engine", ENGINES)
def test_generated_quantities_differ_between_draws_and_repeat_with_the_seed(engine: str) -> None:
    target = open_target("generated", engine)
    z = np.zeros((50, 1))
    first, again, other = (target.constrain(z, seed=seed)["noise"] for seed in (1, 1, 2))
    assert len(set(first)) == 50
    np.testing.assert_array_equal(first, again)
    assert not set(first) & set(other)
    assert not set(target.constrain(z)["noise"]) & set(target.constrain(z)["noise"])


def test_a_draw_that_cannot_be_completed_keeps_what_it_has(caplog: pytest.LogCaptureFixture) -> None:
    target = open_target("generated", "auto")
    values = target.constrain([[1.0], [11.0], [2.0]], seed=1)
    assert values["doubled"].tolist() == [2.0, 22.0, 4.0]
    assert np.isnan(values["noise"]).tolist() == [False, True, False]
    assert "1 of 3 draws" in caplog.text
    assert "x is too large" in caplog.text


# Opening ------------------------------------------------------------------------------------------------


def test_a_program_without_parameters_is_refused() -> None:
    code = "data { real y; } generated quantities { real z = normal_rng(y, 1); }"  # case R08
    with pytest.raises(TargetError, match=r"declares no parameters, so there is nothing to infer\.$"):
        Target.from_stan(stan_code=code, data={"y": 1}, engine="stanli")


def test_parameters_without_elements_are_refused() -> None:
    code = "data { int K; } parameters { vector[K] b; } model { b ~ std_normal(); }"
    with pytest.raises(TargetError, match=r"every parameter of model\.stan has size 0"):
        Target.from_stan(stan_code=code, data={"K": 0}, engine="stanli")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "either stan_file or stan_code"),
        ({"stan_file": "a.stan", "stan_code": "model {}"}, "either stan_file or stan_code"),
        ({"stan_file": PROGRAMS / "failures.stan", "threads": 0}, "threads"),
        ({"stan_file": PROGRAMS / "failures.stan", "seed": -1}, "seed"),
        ({"stan_file": PROGRAMS / "failures.stan", "engine": "jags"}, "engine"),
    ],
)
def test_a_bad_argument_is_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Target.from_stan(**options)


def test_a_missing_program_is_one_sentence() -> None:
    with pytest.raises(TargetError, match=r"There is no Stan program nowhere\.stan\."):
        Target.from_stan("nowhere.stan")


def test_a_path_with_spaces_and_other_letters(tmp_path: Path) -> None:
    folder = tmp_path / "my mödels"
    folder.mkdir()
    program = shutil.copy(PROGRAMS / "skewed_correlated.stan", folder / "schräg 1.stan")
    (folder / "dätä.json").write_text('{"shape": 2.5, "rate": 1.5}')
    target = Target.from_stan(program, data=folder / "dätä.json", engine="stanli")
    assert target.dim == 3


def test_an_edited_program_is_read_again(tmp_path: Path) -> None:
    program = tmp_path / "model.stan"
    for mean in (1.0, 2.0):  # case R18
        program.write_text(f"parameters {{ real x; }} model {{ x ~ normal({mean}, 1); }}")
        assert Target.from_stan(program, engine="stanli").log_density_gradient([0.0])[1] == mean


# Other processes ----------------------------------------------------------------------------------------


def test_pickling_opens_the_program_again() -> None:
    target = open_target("skewed_correlated", data=SKEWED_DATA, threads=1)
    copy = pickle.loads(pickle.dumps(target))
    z = some_points(3, 3)
    np.testing.assert_array_equal(copy.log_density(z), target.log_density(z))
    assert (copy.names, copy.data_json, copy.engine) == (target.names, target.data_json, target.engine)
    assert copy.counts.gradient == 0


def _sum_of_gradients(target: Target, z: np.ndarray, results: Any) -> None:
    results.put(target.log_density_gradient(z)[1].sum())


def test_a_forked_process_has_a_pool_of_its_own() -> None:
    target = open_target("skewed_correlated", data=SKEWED_DATA, threads=2)
    z = some_points(5000, 3)
    for _ in range(3):  # the first calls learn the cost; then the pool runs
        expected = target.log_density_gradient(z)[1].sum()
    fork = multiprocessing.get_context("fork")
    results = fork.Queue()
    child = fork.Process(target=_sum_of_gradients, args=(target, z, results))
    child.start()
    assert results.get(timeout=60) == expected
    child.join(timeout=60)
    assert child.exitcode == 0
    assert target.log_density_gradient(z)[1].sum() == expected


@pytest.mark.parametrize(
    ("names", "shapes"),
    [
        (["t:1.1", "t:1.2"], {"t.1": (2,)}),  # of a tuple whose other arrays are empty
        (["t:1"], {"t.1": ()}),
        (["a.1.1:1", "a.2.1:1"], {"a.1": (2, 1)}),
        (["z.1.real", "z.1.imag"], {"z.real": (1,), "z.imag": (1,)}),
        (["m.1.1", "m.2.1", "m.1.2", "m.2.2"], {"m": (2, 2)}),
        (["m.1.1", "m.1.2", "m.2.1", "m.2.2"], {"m": (2, 2)}),  # a user's own order
        (["x.1", "y", "x.2"], {"x": (2,), "y": ()}),
    ],
)
def test_names_speak_of_variables_and_places(names, shapes):
    found = named_variables(names, (len(names),) * 3)
    assert {name: variable.shape for name, variable in found.items()} == shapes
    for name, variable in found.items():
        for index in np.ndindex(*variable.shape):
            label = names[variable.columns[index]]
            assert [int(word) - 1 for word in re.findall(r"\.(\d+)", label)] == list(index), name
