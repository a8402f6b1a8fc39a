"""CmdStan built from PyPI: every method through CmdStanPy, its files, and its errors."""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import arviz
import cmdstanpy
import numpy as np
import pytest

from dais_stan.engines.cmdstan import cmdstan_home, cmdstan_model, find_cmdstan, is_from_pypi
from dais_stan.engines.program import StanProgram
from dais_stan.engines.pypi_stan import layout
from dais_stan.errors import EngineError, StanCompileError

PROGRAM = Path(__file__).parents[1] / "stan" / "gamma_normal.stan"
DATA = {"shape": 3.0}
# x ~ gamma(3, rate 2), y | x ~ normal(x, 0.5), z | y ~ normal(y, 1)
MEAN = {"x": 1.5, "y": 1.5, "z": 1.5}
SD = {"x": np.sqrt(0.75), "y": 1.0, "z": np.sqrt(2.0)}


@pytest.fixture(scope="module", autouse=True)
def pypi_cmdstan() -> Iterator[Path]:
    """The tests are about the PyPI-built CmdStan, whatever else is installed."""
    home = layout.cmdstan_home()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CMDSTAN", str(home))
        patch.setattr(logging.getLogger("cmdstanpy"), "disabled", True)
        patch.setattr("dais_stan.engines.cmdstan.cmdstan_home", lambda: home)
        yield home


@pytest.fixture(scope="module")
def model(pypi_cmdstan: Path) -> cmdstanpy.CmdStanModel:
    return cmdstan_model(StanProgram.from_file(PROGRAM))


@pytest.fixture(scope="module")
def nuts(model: cmdstanpy.CmdStanModel) -> cmdstanpy.CmdStanMCMC:
    return model.sample(DATA, seed=2, show_progress=False, sig_figs=10)


def sample(model: cmdstanpy.CmdStanModel, **options: Any) -> cmdstanpy.CmdStanMCMC:
    settings = {"chains": 2, "iter_warmup": 300, "iter_sampling": 500, "seed": 1, "show_progress": False}
    return model.sample(DATA, **{**settings, **options})


def run(
    model: cmdstanpy.CmdStanModel, *words: str, folder: Path | None = None
) -> subprocess.CompletedProcess:
    return subprocess.run(
        [str(model.exe_file), *words], cwd=folder, capture_output=True, text=True, check=False
    )


def test_home_is_shaped_like_cmdstan(pypi_cmdstan: Path) -> None:
    assert is_from_pypi(pypi_cmdstan)
    assert cmdstanpy.cmdstan_path() == str(pypi_cmdstan)
    version = tuple(int(number) for number in layout.stan_version().split(".")[:2])
    assert cmdstanpy.utils.cmdstan_version() == version


def test_exe_info(model: cmdstanpy.CmdStanModel) -> None:
    info = model.exe_info()
    assert f"{info['stan_version_major']}.{info['stan_version_minor']}" in layout.stan_version()
    assert info["STAN_THREADS"] == "true"


@pytest.mark.parametrize("metric", ["diag_e", "dense_e", "unit_e"])
def test_nuts_moments(model: cmdstanpy.CmdStanModel, metric: str) -> None:
    fit = sample(model, metric=metric, chains=4, iter_sampling=2000, iter_warmup=1000)
    for name in MEAN:
        draws = fit.stan_variable(name).reshape(4, -1)
        assert draws.mean() == pytest.approx(MEAN[name], abs=4 * float(arviz.mcse(draws, method="mean")))
        assert draws.std() == pytest.approx(SD[name], abs=4 * float(arviz.mcse(draws, method="sd")))
    assert np.corrcoef(fit.x, fit.y)[0, 1] == pytest.approx(np.sqrt(0.75), abs=0.05)


def test_what_cmdstanpy_reads(nuts: cmdstanpy.CmdStanMCMC) -> None:
    assert nuts.draws().shape == (1000, 4, 10)
    assert nuts.column_names[:7] == (
        *("lp__", "accept_stat__", "stepsize__", "treedepth__", "n_leapfrog__", "divergent__", "energy__"),
    )
    assert nuts.inv_metric.shape == (4, 2)
    assert np.all(nuts.step_size > 0) and len(set(nuts.step_size)) == 4
    np.testing.assert_allclose(nuts.draws()[0, :, 2], nuts.step_size, rtol=1e-5)
    divergent = nuts.draws()[:, :, nuts.column_names.index("divergent__")]
    np.testing.assert_array_equal(nuts.divergences, divergent[1:].sum(axis=0))  # cmdstanpy skips the first
    assert all(time["total"] >= 0 for time in nuts.time)
    config = nuts.metadata.cmdstan_config
    assert (config["seed"], config["num_warmup"], config["metric"], config["delta"]) == (
        2,
        1000,
        "diag_e",
        0.8,
    )
    assert cmdstanpy.from_csv(nuts.runset.csv_files).draws().shape == (1000, 4, 10)


def test_chains_are_the_same_in_one_process_or_several(model: cmdstanpy.CmdStanModel) -> None:
    one = sample(model)
    several = sample(model, force_one_process_per_chain=True)
    serial = sample(model, parallel_chains=1)
    np.testing.assert_array_equal(one.draws(), several.draws())
    np.testing.assert_array_equal(one.draws(), serial.draws())
    assert not np.array_equal(one.draws()[:, 0], one.draws()[:, 1])


def test_warmup_and_thinning(model: cmdstanpy.CmdStanModel) -> None:
    fit = sample(model, save_warmup=True, thin=3, iter_warmup=100, iter_sampling=200)
    assert fit.draws().shape[0] == 67
    assert fit.draws(inc_warmup=True).shape[0] == 34 + 67


def test_given_metric_and_step_size(model: cmdstanpy.CmdStanModel) -> None:
    fixed = {"adapt_engaged": False, "iter_warmup": 0, "step_size": 0.3}
    fit = sample(model, inv_metric={"inv_metric": [0.5, 0.25]}, **fixed)
    np.testing.assert_allclose(fit.inv_metric, [[0.5, 0.25]] * 2)
    np.testing.assert_allclose(fit.step_size, 0.3)
    per_chain = [{"inv_metric": [[1.0, 0.1], [0.1, 2.0]]}, {"inv_metric": [[1.0, 0.0], [0.0, 1.0]]}]
    fit = sample(model, inv_metric=per_chain, metric="dense_e", **fixed)
    np.testing.assert_allclose(fit.inv_metric[0], [[1.0, 0.1], [0.1, 2.0]])
    np.testing.assert_allclose(fit.inv_metric[1], np.eye(2))


def test_given_inits(model: cmdstanpy.CmdStanModel) -> None:
    inits = [{"x": 0.25, "y": -1.0}, {"x": 4.0, "y": 2.0}]
    fit = sample(model, inits=inits, fixed_param=True, force_one_process_per_chain=True)
    assert fit.draws_pd(["x", "y"]).drop_duplicates().to_numpy().tolist() == [[0.25, -1.0], [4.0, 2.0]]
    assert fit.draws().shape[:2] == (500, 2)


def test_saved_metric(model: cmdstanpy.CmdStanModel, tmp_path: Path) -> None:
    (tmp_path / "data.json").write_text(json.dumps(DATA))
    words = "sample num_samples=10 adapt save_metric=1 num_chains=2 data file=data.json output file=o.csv"
    done = run(model, *words.split(), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    for chain in (1, 2):
        metric = json.loads((tmp_path / f"o_{chain}_metric.json").read_text())
        assert metric["metric_type"] == "diag_e" and len(metric["inv_metric"]) == 2 and metric["stepsize"] > 0
    settings = [line.lstrip("# ") for line in (tmp_path / "o_2.csv").read_text().splitlines()]
    assert {"id = 2", "num_chains = 2", "thin = 1 (Default)", "save_metric = true"} <= set(settings)


def test_generate_quantities(model: cmdstanpy.CmdStanModel, nuts: cmdstanpy.CmdStanMCMC) -> None:
    z = model.generate_quantities(DATA, previous_fit=nuts, seed=3).draws()[:, :, 0]
    again = model.generate_quantities(DATA, previous_fit=nuts, seed=3).draws()[:, :, 0]
    np.testing.assert_array_equal(z, again)
    noise = z - nuts.draws()[:, :, 8]
    assert noise.std() == pytest.approx(1.0, abs=0.05)
    assert np.abs(np.corrcoef(noise.T)[0, 1:]).max() < 0.15  # chains have noise of their own


@pytest.mark.parametrize("algorithm", ["lbfgs", "bfgs"])
@pytest.mark.parametrize("jacobian, mode", [(False, 1.0), (True, 1.5)])
def test_optimize(model: cmdstanpy.CmdStanModel, algorithm: str, jacobian: bool, mode: float) -> None:
    fit = model.optimize(DATA, seed=1, algorithm=algorithm, jacobian=jacobian, sig_figs=10)
    assert fit.converged
    np.testing.assert_allclose([fit.optimized_params_dict[name] for name in ("x", "y")], mode, rtol=1e-3)


def test_newton_does_not_claim_a_mode_it_lost(model: cmdstanpy.CmdStanModel) -> None:
    """Stan 2.35 to 2.39 scale the Hessian wrongly, so that Newton's method only finds some modes."""
    try:
        fit = model.optimize(DATA, seed=1, algorithm="newton", jacobian=True)
    except RuntimeError as error:
        assert "left the region of finite log density" in str(error)
    else:
        assert fit.optimized_params_dict["x"] == pytest.approx(1.5, rel=1e-2)


def test_laplace(model: cmdstanpy.CmdStanModel) -> None:
    fit = model.laplace_sample(DATA, seed=1, draws=4000)
    log_x = np.log(fit.stan_variable("x"))  # the curvature of log x at its mode log 1.5 is 3
    assert log_x.mean() == pytest.approx(np.log(1.5), abs=4 * np.sqrt(1 / 3 / 4000))
    assert log_x.std() == pytest.approx(np.sqrt(1 / 3), rel=0.05)


@pytest.mark.parametrize("algorithm", ["meanfield", "fullrank"])
def test_variational(model: cmdstanpy.CmdStanModel, algorithm: str) -> None:
    options = {"grad_samples": 20, "iter": 3000, "require_converged": False}
    fit = model.variational(DATA, seed=1, algorithm=algorithm, draws=500, **options)
    assert fit.variational_sample.shape[0] == 500
    assert fit.eta > 0
    assert fit.stan_variable("x", mean=False).mean() == pytest.approx(1.5, abs=0.4)


def test_pathfinder(model: cmdstanpy.CmdStanModel) -> None:
    several = model.pathfinder(DATA, seed=1, draws=2000, num_single_draws=2000)
    assert several.is_resampled
    assert several.stan_variable("x").shape == (2000,)
    assert several.stan_variable("x").mean() == pytest.approx(1.5, abs=0.15)
    one = model.pathfinder(DATA, seed=1, num_paths=1, draws=300)
    assert not one.is_resampled
    assert one.stan_variable("x").shape == (300,)
    all_paths = model.pathfinder(DATA, seed=1, psis_resample=False, num_single_draws=200)
    assert all_paths.stan_variable("x").shape == (800,)


def test_log_prob_and_gradient_test(model: cmdstanpy.CmdStanModel) -> None:
    x, y = 0.7, 1.1
    table = model.log_prob({"x": x, "y": y}, DATA, jacobian=True, sig_figs=12)
    gradient = [3 - 2 * x + 4 * (y - x) * x, -4 * (y - x)]
    np.testing.assert_allclose(table[["g_x", "g_y"]].to_numpy()[0], gradient, rtol=1e-9)
    log_x_gradient = model.log_prob({"x": x, "y": y}, DATA, jacobian=False, sig_figs=12)["g_x"][0]
    assert log_x_gradient == pytest.approx(gradient[0] - 1)
    report = model.diagnose({"x": x, "y": y}, DATA)
    assert report["error"].abs().max() < 1e-6


@pytest.mark.parametrize(
    "words, said",
    [
        ("sample num_samples=-1", "num_samples must be an integer from 0"),
        ("sample num_samples=ten", 'found "ten"'),
        ("sample adapt delta=1.5", "delta must be a number between 0 and 1"),
        ("sample adapt engaged=maybe", "engaged must be 0, 1, true or false"),
        ("sample num_warmup=0", "num_warmup must be above 0"),
        ("method=guess", "method must be one of sample, optimize"),
        ("sample thinn=2", '"thinn=2" is unknown'),
        ("max_depth=3", "method=sample algorithm=hmc engine=nuts max_depth"),
        ("sample init=-1", "init must be a radius"),
        ("sample num_threads=0", "num_threads must be -1 or above 0"),
        ("sample output sig_figs=19", "sig_figs must be an integer from -1 to 18"),
        ("sample data file=missing.json", '"missing.json" cannot be read'),
        ("sample output file=no/such/folder.csv", "cannot be written"),
        ("generate_quantities", "needs fitted_params"),
    ],
)
def test_a_bad_command_line(model: cmdstanpy.CmdStanModel, words: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "data.json").write_text(json.dumps(DATA))
    data = [] if "data file" in words else ["data", "file=data.json"]
    # Words of a method come after those of other groups, so that each is understood where it stands.
    done = run(model, *data, *words.split(), folder=tmp_path)
    assert done.returncode != 0
    errors = done.stderr.strip().splitlines()
    assert len(errors) == 1 and errors[0].startswith("Error: ") and said in errors[0]


@pytest.mark.parametrize(
    "text, said", [("{}", "variable name=shape"), ('{"shape": -1}', "shape"), ('{"shape": [', "not valid")]
)
def test_bad_data(model: cmdstanpy.CmdStanModel, text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "data.json").write_text(text)
    done = run(model, "sample", "data", "file=data.json", folder=tmp_path)
    assert done.returncode != 0 and said in done.stderr and not (tmp_path / "output.csv").exists()


def test_help(model: cmdstanpy.CmdStanModel, tmp_path: Path) -> None:
    assert "pathfinder" in run(model, "help", folder=tmp_path).stdout
    everything = run(model, "help-all", folder=tmp_path)
    assert everything.returncode == 0 and "save_metric=false" in everything.stdout


EXTERNAL = """
functions { real target_log_density(vector x); }
parameters { vector[2] x; }
model { target += target_log_density(x); }
"""
# -(x - 1)'(x - 1) / 8: a normal density with mean 1 and sd 2, whose gradient is given by hand.
HEADER = """
#include <stan/math/rev.hpp>
#include <ostream>
inline double target_log_density(const Eigen::VectorXd& x, std::ostream*) {
  return -(x.array() - 1).square().sum() / 8;
}
template <typename T, stan::require_eigen_vector_vt<stan::is_var, T>* = nullptr>
stan::math::var target_log_density(const T& x, std::ostream* messages) {
  stan::arena_t<Eigen::Matrix<stan::math::var, -1, 1>> arena_x = x;
  const Eigen::VectorXd value = arena_x.val();
  return stan::math::make_callback_var(target_log_density(value, messages), [arena_x](auto& result) mutable {
    arena_x.adj().array() += result.adj() * -(arena_x.val().array() - 1) / 4;
  });
}
"""


def test_user_header(tmp_path: Path) -> None:
    folder = tmp_path / "a folder with a é"
    folder.mkdir()
    header = folder / "target bridge.hpp"
    header.write_text(HEADER)
    fit = cmdstan_model(StanProgram.from_code(EXTERNAL), user_header=header).sample(
        seed=4, show_progress=False, chains=2
    )
    x = fit.stan_variable("x")
    mcse = [float(arviz.mcse(x[:, i].reshape(2, -1))) for i in range(2)]
    assert np.all(np.abs(x.mean(axis=0) - 1) < 4 * np.array(mcse))
    np.testing.assert_allclose(x.std(axis=0), 2, rtol=0.15)


def test_cmdstanpy_compiles_a_file_with_a_strange_path(tmp_path: Path) -> None:
    file = tmp_path / "dossier à espace" / "modèle.stan"
    file.parent.mkdir()
    file.write_text("#include prior.stan\nmodel { x ~ normal(mean_of_x(), 1); }\n")
    (file.parent / "prior.stan").write_text(
        "functions { real mean_of_x() { return 7; } }\nparameters { real x; }\n"
    )
    model = cmdstanpy.CmdStanModel(stan_file=file)
    assert Path(model.exe_file).parent == file.parent
    fit = model.sample(
        chains=1, iter_sampling=200, seed=1, show_progress=False, output_dir=file.parent / "ö ut"
    )
    assert fit.stan_variable("x").mean() == pytest.approx(7, abs=0.6)


def test_a_program_without_parameters() -> None:
    program = StanProgram.from_code("generated quantities { real z = std_normal_rng(); }")
    fit = cmdstan_model(program).sample(chains=1, iter_sampling=500, seed=1, show_progress=False)
    assert fit.stan_variable("z").std() == pytest.approx(1, abs=0.15)


def test_stanc_says_what_is_wrong() -> None:
    with pytest.raises(StanCompileError, match=r"Identifier .y. not in scope"):
        cmdstan_model(StanProgram.from_code("parameters { real x; } model { x ~ normal(y, 1); }"))


def test_compiled_once_and_again_when_edited(model: cmdstanpy.CmdStanModel) -> None:
    program = StanProgram.from_file(PROGRAM)
    assert cmdstan_model(program).exe_file == model.exe_file


def test_an_installed_cmdstan_wins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CMDSTAN", raising=False)
    assert find_cmdstan() is None
    monkeypatch.setenv("CMDSTAN", str(layout.cmdstan_home()))
    assert find_cmdstan() is None  # our own folder is not an installed CmdStan
    newest = tmp_path / ".cmdstan" / "cmdstan-2.36.0"
    newest.mkdir(parents=True)
    (tmp_path / ".cmdstan" / "cmdstan-2.9.0").mkdir()
    assert find_cmdstan() == newest
    other = tmp_path / "mine"
    other.mkdir()
    monkeypatch.setenv("CMDSTAN", str(other))
    with pytest.raises(EngineError, match="no makefile"):
        find_cmdstan()
    (other / "makefile").write_text("")
    assert find_cmdstan() == other
    assert cmdstan_home() is not None


def test_two_makes_at_once(pypi_cmdstan: Path, model: cmdstanpy.CmdStanModel, tmp_path: Path) -> None:
    """Both build a shared object that is missing; each leaves a whole one, and nothing else."""
    home = tmp_path / "un dossier à espaces"
    shutil.copytree(pypi_cmdstan, home, symlinks=True)
    os.unlink(home / "headers")
    (home / "headers").mkdir()
    ask = ["make", "-s", "--eval", "where: ; @echo $(DRIVER_FOLDER)", "where"]
    folder = subprocess.run(ask, cwd=home, capture_output=True, text=True, check=True).stdout.strip()
    made = (pypi_cmdstan / folder / "arguments.o").resolve()
    shutil.copytree(made.parent, home / folder)
    missing = home / folder / "arguments.o"
    missing.unlink()
    for precompiled in made.parent.parent.glob("model_header.hpp*"):
        (missing.parent.parent / precompiled.name).symlink_to(precompiled)
    makes = [subprocess.Popen(["make", "build"], cwd=home, stdout=subprocess.DEVNULL) for _ in range(2)]
    assert [make.wait() for make in makes] == [0, 0]
    assert missing.stat().st_size == made.stat().st_size
    assert not [file for file in missing.parent.iterdir() if file.suffix != ".o"]
