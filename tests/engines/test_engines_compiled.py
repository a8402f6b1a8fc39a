"""Programs compiled against bridge.cpp: the C border, the build, and what goes wrong in either.

Every program here costs a compile, so few programs answer many questions.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import bridgestan
import numpy as np
import pytest
from scipy import stats

from dais_stan.engines import find_engine
from dais_stan.engines.bridgestan import BridgeStanEngine
from dais_stan.engines.cache import cache_dir
from dais_stan.engines.program import StanProgram
from dais_stan.engines.pypi_stan import layout
from dais_stan.errors import EngineError, StanCompileError, TargetError

PROGRAMS = Path(__file__).parents[1] / "stan"
BORDER_DATA = '{"N": 2, "y": [0.5, -1.5]}'


@pytest.fixture(scope="module")
def pypi() -> BridgeStanEngine:
    engine = find_engine("pypi")
    assert isinstance(engine, BridgeStanEngine)
    return engine


@pytest.fixture(scope="module")
def border(pypi: BridgeStanEngine) -> bridgestan.StanModel:
    return pypi.open(StanProgram.from_file(PROGRAMS / "border.stan"), BORDER_DATA, seed=1)


@pytest.fixture
def odd_cache(pypi: BridgeStanEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with spaces and non-ASCII letters in its path, with what all programs share and no program."""
    pypi.open(StanProgram.from_file(PROGRAMS / "border.stan"), BORDER_DATA, seed=1)
    folder = tmp_path / "a cäche, with 'spaces'"
    folder.mkdir()
    (folder / "headers").symlink_to(cache_dir() / "headers")
    shutil.copytree(cache_dir() / "homes", folder / "homes", symlinks=True)
    monkeypatch.setenv("DAIS_STAN_CACHE", str(folder))
    return folder


def closed_form(s: float, p: np.ndarray, t: np.ndarray, z: np.ndarray) -> float:
    """Log density of border.stan in its own variables, constants kept, no Jacobian."""
    return float(
        stats.expon.logpdf(s, scale=2)
        + stats.dirichlet.logpdf(p, [2, 3, 4])
        + stats.norm.logpdf(np.concatenate([t, z])).sum()
        + stats.norm.logpdf([0.5, -1.5], t[0], s).sum()
    )


S, P, T, Z = 1.3, np.array([0.2, 0.5, 0.3]), np.array([0.4, -1.0, 2.0]), np.array([0.7, -0.2])
X = np.concatenate([[S], P, T, Z])


def test_names_and_sizes(border: bridgestan.StanModel) -> None:
    assert border.name() == "border_model"
    assert border.model_version() == (2, 9, 0)
    assert border.param_names() == ["s", "p.1", "p.2", "p.3", "t:1", "t:2.1", "t:2.2", "z.real", "z.imag"]
    names = border.param_names(include_tp=True, include_gq=True)
    assert names[9:] == ["s2", "drawn"]
    assert border.param_unc_num() == len(border.param_unc_names()) == 8
    assert [border.param_num(include_tp=tp, include_gq=gq) for tp in (0, 1) for gq in (0, 1)] == [
        9,
        10,
        10,
        11,
    ]


def test_model_info_says_how_it_was_built(border: bridgestan.StanModel) -> None:
    lines = [line.strip() for line in border.model_info().splitlines()]
    assert f"Stan version: {layout.stan_version()}" in lines
    assert {"STAN_THREADS=true", "BRIDGESTAN_AD_HESSIAN=false"} <= set(lines)


def test_log_density_is_the_closed_form(border: bridgestan.StanModel) -> None:
    z = border.param_unconstrain(X)
    value = border.log_density(z, propto=False, jacobian=False)
    assert value == pytest.approx(closed_form(S, P, T, Z), rel=1e-12)
    other = border.param_unconstrain(np.concatenate([[2.0], P[::-1], T + 1, Z]))
    dropped = [border.log_density(point, propto=True, jacobian=False) for point in (z, other)]
    expected = closed_form(2.0, P[::-1], T + 1, Z) - closed_form(S, P, T, Z)
    assert dropped[1] - dropped[0] == pytest.approx(expected, rel=1e-12)
    assert dropped[0] != pytest.approx(value)


def test_jacobian_is_that_of_the_lower_bound(border: bridgestan.StanModel) -> None:
    def log_jacobian(s: float) -> float:
        z = border.param_unconstrain(np.concatenate([[s], P, T, Z]))
        with_it = border.log_density(z, propto=False)
        return with_it - border.log_density(z, propto=False, jacobian=False)

    assert log_jacobian(3.0) - log_jacobian(1.0) == pytest.approx(np.log(3.0), rel=1e-12)


@pytest.mark.parametrize("propto", [True, False])
@pytest.mark.parametrize("jacobian", [True, False])
def test_derivatives_agree_with_differences(
    border: bridgestan.StanModel, propto: bool, jacobian: bool
) -> None:
    z, v = border.param_unconstrain(X), np.linspace(-1, 1, 8)
    options = {"propto": propto, "jacobian": jacobian}

    def slope(function: object, direction: np.ndarray, h: float) -> np.ndarray:
        return (function(z + h * direction) - function(z - h * direction)) / (2 * h)  # type: ignore[operator]

    value, gradient = border.log_density_gradient(z, **options)
    assert value == pytest.approx(border.log_density(z, **options), rel=1e-14)
    along_v = slope(lambda point: border.log_density(point, **options), v, 1e-6)
    assert gradient @ v == pytest.approx(along_v, rel=1e-7)
    hvp_value, hvp = border.log_density_hessian_vector_product(z, v, **options)
    np.testing.assert_allclose(
        hvp, slope(lambda x: border.log_density_gradient(x, **options)[1], v, 1e-5), atol=1e-6
    )
    hessian_value, hessian_gradient, hessian = border.log_density_hessian(z, **options)
    np.testing.assert_allclose(hessian @ v, hvp, atol=1e-6)
    np.testing.assert_array_equal(hessian, hessian.T)
    np.testing.assert_array_equal(hessian_gradient, gradient)
    assert hvp_value == hessian_value == pytest.approx(value, rel=1e-14)


def test_hessian_times_nothing_is_nothing(border: bridgestan.StanModel) -> None:
    z = border.param_unconstrain(X)
    np.testing.assert_array_equal(border.log_density_hessian_vector_product(z, np.zeros(8))[1], np.zeros(8))


def test_constrain_and_unconstrain_are_inverse(border: bridgestan.StanModel) -> None:
    z = np.random.default_rng(3).normal(size=8)
    np.testing.assert_allclose(border.param_unconstrain(border.param_constrain(z)), z, rtol=1e-12)
    both = border.param_constrain(border.param_unconstrain(X), include_tp=True)
    np.testing.assert_allclose(both, [*X, S**2], rtol=1e-12)


def test_json_values_unconstrain_to_the_same_point(border: bridgestan.StanModel) -> None:
    json = '{"s": 1.3, "p": [0.2, 0.5, 0.3], "t": {"1": 0.4, "2": [-1.0, 2.0]}, "z": [0.7, -0.2], "none": []}'
    np.testing.assert_allclose(border.param_unconstrain_json(json), border.param_unconstrain(X), rtol=1e-12)


def test_generated_quantities_come_from_the_generators_stream(border: bridgestan.StanModel) -> None:
    z = border.param_unconstrain(X)

    def draws(seed: int) -> list[float]:
        rng = border.new_rng(seed)
        return [border.param_constrain(z, include_gq=True, rng=rng)[-1] for _ in range(3)]

    assert draws(7) == draws(7)
    assert len({*draws(7), *draws(8)}) == 6
    error = border.stanlib.bs_param_constrain  # the package itself refuses; the C border must too
    assert error(border.model, False, True, z, np.zeros(10), None, None) != 0


def test_seed_reaches_the_transformed_data(pypi: BridgeStanEngine, border: bridgestan.StanModel) -> None:
    program = StanProgram.from_file(PROGRAMS / "border.stan")
    z = border.param_unconstrain(X)

    def drawn(seed: int) -> float:
        model = pypi.open(program, BORDER_DATA, seed)
        return model.param_constrain(z, include_gq=True, rng=model.new_rng(5))[-1]

    assert drawn(1) == drawn(1) != drawn(2)


def test_initialize_keeps_given_values_and_draws_the_rest(border: bridgestan.StanModel) -> None:
    z = border.param_initialize(border.new_rng(1), '{"s": 1.3}', init_radius=0.5)
    assert z[0] == pytest.approx(np.log(1.3))
    assert np.all(np.abs(z[1:]) < 0.5) and len(set(z)) == 8
    zero = border.param_initialize(border.new_rng(1), init_radius=0)
    np.testing.assert_allclose(zero, 0, atol=1e-12)
    with pytest.raises(RuntimeError, match=r"^Initialization failed: .*s is too large"):
        border.param_initialize(border.new_rng(1), '{"s": 200}', max_tries=3)


def test_reject_and_print_reach_python(
    border: bridgestan.StanModel, capsys: pytest.CaptureFixture[str]
) -> None:
    z = border.param_unconstrain(np.concatenate([[200.0], P, T, Z]))
    for call in (border.log_density, border.log_density_gradient):
        with pytest.raises(RuntimeError, match=r"s is too large \(in 'border.stan', line \d+"):
            call(z)
    assert capsys.readouterr().out == "s is 200\n" * 2
    assert np.isfinite(border.log_density(border.param_unconstrain(X)))
    assert capsys.readouterr().out == ""


def test_data_that_the_program_refuses_is_a_target_error(pypi: BridgeStanEngine) -> None:
    program = StanProgram.from_file(PROGRAMS / "border.stan")
    for data, message in [
        ('{"N": 2}', "y"),
        ('{"N": 2, "y": [1]}', "mismatch in dimension.*y"),
        ('{"N": -1, "y": []}', "N is -1"),
        ("{", "JSON"),
        ("", "N"),
    ]:
        with pytest.raises(TargetError, match=f"(?s)^border.stan: .*{message}"):
            pypi.open(program, data, seed=1)


def test_second_opening_neither_warns_nor_mixes_up_data(pypi: BridgeStanEngine) -> None:
    program = StanProgram.from_file(PROGRAMS / "border.stan")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        two = pypi.open(program, BORDER_DATA, seed=1)
        none = pypi.open(program, '{"N": 0, "y": []}', seed=1)
    z = two.param_unconstrain(X)
    assert none.log_density(z, propto=False) - two.log_density(z, propto=False) == pytest.approx(
        -stats.norm.logpdf([0.5, -1.5], T[0], S).sum()
    )


def test_a_program_seen_before_opens_quickly_in_a_new_process(border: bridgestan.StanModel) -> None:
    code = f"""
import time
from dais_stan.engines import find_engine
from dais_stan.engines.program import StanProgram
started = time.perf_counter()
find_engine("pypi").open(StanProgram.from_file({str(PROGRAMS / "border.stan")!r}), {BORDER_DATA!r}, 1)
print(time.perf_counter() - started)
"""
    seconds = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)
        for _ in range(3)
    ]
    assert min(seconds) < 0.3


def test_odd_paths_and_an_edited_include(odd_cache: Path, tmp_path: Path) -> None:
    folder = tmp_path / "a folder, with $pecial 'lettérs' #1"
    (folder / "in cludes").mkdir(parents=True)
    file = folder / "mödel %1.stan"
    file.write_text("#include centre.stan\nparameters { real x; } model { x ~ normal(centre(), 1); }")

    def gradient_at_zero(centre: float) -> float:
        (folder / "in cludes" / "centre.stan").write_text(
            f"functions {{ real centre() {{ return {centre}; }} }}"
        )
        program = StanProgram.from_file(file, include_paths=[folder / "in cludes"])
        model = find_engine("pypi").open(program, "", seed=1)
        assert Path(model.lib_path).is_relative_to(odd_cache)
        assert "BRIDGESTAN_AD_HESSIAN=false" in model.model_info()
        return model.log_density_gradient(np.zeros(1))[1][0]

    assert [gradient_at_zero(2.0), gradient_at_zero(-3.0), gradient_at_zero(2.0)] == [2.0, -3.0, 2.0]
    assert sorted(path.name for path in folder.iterdir()) == ["in cludes", "mödel %1.stan"]


OPEN_NORMAL = """
import numpy
from dais_stan.engines import find_engine
from dais_stan.engines.program import StanProgram
model = find_engine("pypi").open(
    StanProgram.from_code("parameters { real x; } model { target += -7 * square(x); }"), "", 1)
print(model.log_density(numpy.ones(1)))
"""


def test_a_killed_compile_then_two_at_once(odd_cache: Path) -> None:
    def start() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", OPEN_NORMAL], stdout=subprocess.PIPE, text=True, start_new_session=True
        )

    killed = start()
    locks = odd_cache / "locks"
    while not (locks.is_dir() and any(file.name.startswith("models-") for file in locks.iterdir())):
        time.sleep(0.05)
    time.sleep(1.0)  # into the compiler
    os.killpg(killed.pid, signal.SIGKILL)
    assert killed.communicate()[0] == ""
    assert list((odd_cache / "models").glob("*")) == []

    both = [start(), start()]
    assert [process.communicate(timeout=600)[0] for process in both] == ["-7.0\n", "-7.0\n"]
    assert len(list((odd_cache / "models").iterdir())) == 1


def test_bridgestan_itself_compiles_with_our_makefile(
    pypi: BridgeStanEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRIDGESTAN", str(pypi.home))
    file = tmp_path / "plain.stan"
    file.write_text("parameters { real x; } model { x ~ normal(3, 1); }")
    library = bridgestan.compile_model(file, make_args=["STAN_THREADS=True"])
    assert library == tmp_path / "plain_model.so"
    assert bridgestan.StanModel(library).log_density_gradient(np.zeros(1))[1] == 3
    assert find_engine().name == "bridgestan"


@pytest.mark.slow  # test_stan_models.py has the quick one
def test_autodiff_hessian_is_exact_and_says_so() -> None:
    engine = find_engine("pypi", autodiff_hessian=True)
    model = engine.open(
        StanProgram.from_file(PROGRAMS / "skewed_correlated.stan"), '{"shape": 2.5, "rate": 1.5}', 1
    )
    assert "BRIDGESTAN_AD_HESSIAN=true" in model.model_info()
    log_s, x1, x2 = z = np.array([0.3, -0.8, 0.5])
    s, r = np.exp(log_s), x2 - 2 * x1
    exact = np.array(
        [
            [-1.5 * s - 2 * (r / s) ** 2, -4 * r / s**2, 2 * r / s**2],
            [-4 * r / s**2, -1 - 4 / s**2, 2 / s**2],
            [2 * r / s**2, 2 / s**2, -1 / s**2],
        ]
    )
    value, gradient = model.log_density_gradient(z)
    hessian_value, hessian_gradient, hessian = model.log_density_hessian(z)
    np.testing.assert_allclose(hessian, exact, rtol=1e-12)
    np.testing.assert_allclose(hessian_gradient, gradient, rtol=1e-12)
    v = np.array([1.0, -2.0, 0.5])
    hvp_value, hvp = model.log_density_hessian_vector_product(z, v)
    np.testing.assert_allclose(hvp, exact @ v, rtol=1e-12)
    assert value == pytest.approx(hessian_value) and value == pytest.approx(hvp_value)


def test_stancs_refusal_comes_before_any_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(StanCompileError, match="after variable declaration"):
        find_engine("pypi").open(StanProgram.from_code("parameters { real x }"), "", 1)


@pytest.mark.parametrize("missing", ["make", "g++"])
def test_no_toolchain_names_the_command_that_mends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    for program in {"make", "g++", "clang++"} - {missing}:
        if where := shutil.which(program):
            (tmp_path / program).symlink_to(where)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        EngineError, match=rf"(?s){missing}.*(apt-get install make g\+\+|xcode-select --install)"
    ):
        find_engine("pypi").open(StanProgram.from_code("parameters { real unseen; } model {}"), "", 1)


def test_a_compiler_that_fails_is_reported(
    odd_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "broken++"
    broken.write_text("#!/bin/sh\necho 'fatal error: no space left' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CXX", str(broken))
    with pytest.raises(StanCompileError, match=r"C\+\+ build .* failed:\nfatal error: no space left"):
        find_engine("pypi").open(StanProgram.from_code("parameters { real unseen; } model {}"), "", 1)
    assert not (odd_cache / "models").exists()
