"""The command line: what it prints, what it saves, and how it refuses."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dais_stan import arviz_io, optimize
from dais_stan.resources import stan_models

Cli = Callable[..., "CliRun"]  # noqa: F821

PROGRAM = """
data { int<lower=0> N; vector[N] y; real<lower=0> scale; }
parameters { real mu; }
model { mu ~ normal(0, 10); y ~ normal(mu, scale); }
"""
DATA = {"N": 3, "y": [1.0, 2.0, 4.5], "scale": 1.0}
EIGHT_SCHOOLS = (
    stan_models() / "eight_schools_noncentered.stan",
    "--data",
    stan_models() / "eight_schools_noncentered.data.json",
)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A small program; its data is data.json beside it."""
    (tmp_path / "data.json").write_text(json.dumps(DATA))
    (tmp_path / "normal_mean.stan").write_text(PROGRAM)
    return tmp_path / "normal_mean.stan"


def command(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own."""
    script = Path(sys.executable).with_name("dais-stan")
    words = [str(script), *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload]


def fit_arguments(model: Path, *more: object) -> list[object]:
    return ["fit", model, "--data", model.parent / "data.json", "--seed", 1, "--engine", "stanli", *more]


def test_help_needs_no_numerical_library() -> None:
    code = (
        "import sys, dais_stan.cli\n"
        "heavy = {'numpy', 'scipy', 'xarray', 'arviz', 'matplotlib', 'cmdstanpy', 'bridgestan'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    shown = command("--help")
    assert shown.returncode == 0
    for word in ("doctor", "fit", "sample", "compare"):
        assert word in shown.stdout


def test_public_names_are_importable_and_listed() -> None:
    import dais_stan

    for name in dais_stan.__all__:
        assert getattr(dais_stan, name).__module__.startswith("dais_stan.")
        assert name in dir(dais_stan)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        dais_stan.nonsense  # noqa: B018


def test_fit_prints_a_table_and_a_verdict_and_saves(cli: Cli, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "new folder" / "fit.nc"
    done = cli(*fit_arguments(model, "--out", out))
    assert done.code == 0, done.err
    for words in ("mu", "log evidence", "up to a constant", "k-hat", "No trouble found", f"Saved to {out}"):
        assert words in done.out
    posterior = arviz_io.read(out)["posterior"]
    precision = 3 + 1 / 100
    assert posterior["mu"].shape == (1, 4000)
    assert float(posterior["mu"].mean()) == pytest.approx(7.5 / precision, abs=0.05)
    assert float(posterior["mu"].std()) == pytest.approx(precision**-0.5, rel=0.05)
    assert posterior.attrs["seed"] == 1
    assert sorted(file.name for file in out.parent.iterdir()) == ["fit.nc"]


def test_quiet_prints_nothing(cli: Cli, model: Path) -> None:
    done = cli(*fit_arguments(model, "--quiet"))
    assert (done.code, done.out) == (0, "")


def test_json_is_all_of_standard_output_and_has_null_for_infinity(cli: Cli, model: Path) -> None:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    done = cli(*fit_arguments(model, "--json", "--importance-draws", 10))
    record = json.loads(done.out, parse_constant=refuse)
    assert record["khat"] is None  # ten draws say nothing of a tail
    assert record["method"] == "fullrank" and record["seed"] == 1 and record["out"] is None
    assert record["summary"]["mu"]["mean"] == pytest.approx(7.5 / 3.01, abs=0.5)


def test_the_same_seed_gives_the_same_output(cli: Cli, model: Path) -> None:
    one, two = (json.loads(cli(*fit_arguments(model, "--json")).out) for _ in range(2))
    assert one["summary"] == two["summary"] and one["log_evidence"] == two["log_evidence"]


BAD_DATA = {
    "a missing variable": ({"N": 3, "y": [1, 2, 3]}, ['"scale"', "does not have it"]),
    "a wrong shape": ({**DATA, "y": [1.0, 2.0]}, ['"y"', "expected shape (3)", "found shape (2)"]),
    "too many dimensions": ({**DATA, "y": [[1.0, 2.0, 3.0]]}, ['"y"', "1 dimension", "shape (1, 3)"]),
    "out of bounds": ({**DATA, "scale": -1.0}, ['"scale"', "greater than or equal to 0", "-1"]),
    "not a number": ({**DATA, "y": [1.0, float("nan"), 2.0]}, ['"y"', "nan", "[2]"]),
    "words": ({**DATA, "y": ["a", "b", "c"]}, ['"y"', "real values"]),
    "a fraction for an integer": ({**DATA, "N": 2.5}, ['"N"', "one int", "2.5"]),
}


@pytest.mark.parametrize("case", BAD_DATA)
def test_bad_data_is_one_sentence_that_names_the_variable(cli: Cli, model: Path, case: str) -> None:
    values, words = BAD_DATA[case]
    (model.parent / "data.json").write_text(json.dumps(values))
    refused(cli(*fit_arguments(model)), *words)


def refused(done: object, *words: str) -> None:
    """Exit status 2, nothing on standard output, and one sentence of error with the given words."""
    assert done.code == 2, done  # type: ignore[attr-defined]
    assert done.out == ""  # type: ignore[attr-defined]
    message = done.err.strip()  # type: ignore[attr-defined]
    assert message.startswith("Error: ") and "Traceback" not in message
    for word in words:
        assert word in message


def test_data_that_is_no_json(cli: Cli, model: Path) -> None:
    (model.parent / "data.json").write_text("{'N': 3")
    refused(cli(*fit_arguments(model)), "expected JSON", "data.json", "line 1")


def test_missing_files(cli: Cli, model: Path, tmp_path: Path) -> None:
    refused(cli("fit", tmp_path / "none.stan"), "no Stan program", "none.stan")
    refused(cli("fit", tmp_path), str(tmp_path))
    refused(cli("fit", model, "--data", tmp_path / "none.json"), "no data file", "none.json")
    refused(cli("sample", tmp_path / "none.stan"), "no Stan program", "none.stan")
    refused(cli("compare", tmp_path / "a.nc", tmp_path / "b.nc"), "a.nc", "no such file")


@pytest.mark.parametrize("verb", ["fit", "sample"])
def test_a_syntax_error_keeps_the_message_of_stanc(cli: Cli, tmp_path: Path, verb: str) -> None:
    (tmp_path / "wrong.stan").write_text("parameters { real x }\nmodel { x ~ std_normal(); }\n")
    done = cli(verb, tmp_path / "wrong.stan")
    refused(done, "wrong.stan", "line 1", '";"')
    assert "/tmp/dais-stan-" not in done.err


def test_a_program_without_parameters(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "none.stan").write_text("generated quantities { real z = normal_rng(0, 1); }")
    refused(cli("fit", tmp_path / "none.stan"), "none.stan declares no parameters")
    refused(cli("sample", tmp_path / "none.stan"), "none.stan declares no parameters")


def test_a_density_that_is_finite_nowhere(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "nowhere.stan").write_text("parameters { real x; } model { x ~ uniform(5, 6); }")
    done = cli("fit", tmp_path / "nowhere.stan", "--engine", "stanli")
    refused(done, "No finite point", "nowhere", "bounds")


BAD_OPTIONS = {
    "method": (["--method", "lowrank"], "method must be one of auto, meanfield, fullrank"),
    "start": (["--start", "there"], "start must be"),
    "engine": (["--engine", "v8"], "engine must be"),
    "resume": (["--resume"], "--resume needs --out"),
}


@pytest.mark.parametrize("case", BAD_OPTIONS)
def test_an_unknown_choice_is_answered_with_those_there_are(cli: Cli, model: Path, case: str) -> None:
    options, words = BAD_OPTIONS[case]
    refused(cli("fit", model, "--data", model.parent / "data.json", "--engine", "stanli", *options), words)


@pytest.mark.parametrize("options", [["--seed", "-1"], ["--threads", "0"], ["--nonsense"], ["--draws", "x"]])
def test_usage_errors_exit_with_2(cli: Cli, model: Path, options: list[str]) -> None:
    done = cli("fit", model, *options)
    assert done.code == 2 and options[0] in done.err and done.out == ""


def test_a_result_that_cannot_be_written_is_refused_at_once(cli: Cli, model: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    refused(cli(*fit_arguments(model, "--out", tmp_path / "file" / "fit.nc")), "--out", "cannot be written")
    refused(cli(*fit_arguments(model, "--out", tmp_path)), "--out must be a file")


@pytest.mark.parametrize("verb", ["fit", "sample", "mix"])
def test_a_result_does_not_replace_what_it_is_made_of(
    cli: Cli, model: Path, tmp_path: Path, verb: str
) -> None:
    code = model.read_text()
    refused(
        cli(verb, model, "--out", tmp_path / "x" / ".." / model.name), "--out", "one of the files to read"
    )
    assert model.read_text() == code


def test_pages_and_pictures_do_not_replace_results(cli: Cli, model: Path, tmp_path: Path) -> None:
    saved = tmp_path / "fit.nc"
    assert cli(*fit_arguments(model, "--out", saved)).code == 0
    content = saved.read_bytes()
    refused(cli("report", saved, "--out", saved), "--out", "one of the files to read")
    refused(cli("compare", saved, saved, "--picture", saved), "--picture", "one of the files to read")
    assert saved.read_bytes() == content


def test_no_compiler(model: Path) -> None:
    (model.parent / "never_compiled.stan").write_text(f"// {time.time_ns()}\n{PROGRAM}")
    done = command(
        "fit",
        model.parent / "never_compiled.stan",
        "--data",
        model.parent / "data.json",
        env={**os.environ, "PATH": "", "CXX": "g++"},
    )
    assert done.returncode == 2 and done.stdout == ""
    assert "needed to compile Stan and was not found" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_interrupted_fit_goes_on_to_the_result_of_an_unbroken_one(
    cli: Cli, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setattr(optimize, "CHECKPOINT_SECONDS", 0.0)
    # A test run in the background may have been started with the signal ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    whole, broken = tmp_path / "whole.nc", tmp_path / "broken.nc"
    checkpoint = tmp_path / "broken.nc.checkpoint"
    save = optimize.Checkpoint.save

    def interrupted_save(self: optimize.Checkpoint, state: Any, *arguments: Any, **options: Any) -> None:
        save(self, state, *arguments, **options)
        if state.iteration == 300:
            signal.raise_signal(signal.SIGINT)  # what Ctrl-C does

    with monkeypatch.context() as patch:
        patch.setattr(optimize.Checkpoint, "save", interrupted_save)
        done = cli(*fit_arguments(model, "--out", broken))
    assert done.code == 130 and "--resume --seed 1" in done.err
    assert checkpoint.exists() and not broken.exists()
    assert cli(*fit_arguments(model, "--out", broken), "--resume").code == 0
    assert cli(*fit_arguments(model, "--out", whole)).code == 0
    results = [arviz_io.read(path)["posterior"]["mu"].to_numpy() for path in (whole, broken)]
    np.testing.assert_array_equal(*results)
    assert not checkpoint.exists()


def test_resume_refuses_the_checkpoint_of_another_run_and_starts_without_one(
    cli: Cli, model: Path, tmp_path: Path
) -> None:
    out = tmp_path / "fit.nc"
    assert cli(*fit_arguments(model, "--out", out, "--resume")).code == 0
    checkpoint = tmp_path / "fit.nc.checkpoint"
    checkpoint.write_bytes(b"no checkpoint at all")
    refused(cli(*fit_arguments(model, "--out", out, "--resume")), "fit.nc.checkpoint")


def test_sample_fit_and_compare(cli: Cli, tmp_path: Path) -> None:
    nuts, vi, picture = tmp_path / "nuts.nc", tmp_path / "vi.nc", tmp_path / "both.png"
    done = cli("sample", *EIGHT_SCHOOLS, "--seed", 1, "--out", nuts)
    assert done.code == 0, done.err
    assert "r_hat" in done.out and "gradients" in done.out and f"Saved to {nuts}" in done.out
    assert arviz_io.read(nuts)["posterior"]["theta"].shape == (4, 1000, 8)

    record = json.loads(cli("fit", *EIGHT_SCHOOLS, "--seed", 1, "--out", vi, "--json").out)
    assert record["log_evidence_normalized"] == 1 and record["out"] == str(vi)

    table = cli("compare", vi, nuts, "--picture", picture)
    assert table.code == 0 and "theta[8]" in table.out and "A and B agree" in table.out
    assert picture.read_bytes().startswith(b"\x89PNG")
    result = json.loads(cli("compare", vi, nuts, "--json").out)
    by_name = {entry["name"]: entry for entry in result["scalars"]}
    assert abs(by_name["mu"]["mean_error"]) < 0.1 and abs(by_name["mu"]["log_sd_ratio"]) < 0.1
    assert json.loads(cli("compare", nuts, nuts, "--json").out)["worst_mean_error"]["value"] == 0


def test_compare_refuses_what_it_cannot_read(cli: Cli, model: Path, tmp_path: Path) -> None:
    good, text, other = tmp_path / "good.nc", tmp_path / "text.nc", tmp_path / "other.nc"
    assert cli(*fit_arguments(model, "--out", good)).code == 0
    text.write_text("no netCDF at all")
    refused(cli("compare", good, text), "text.nc", "not a netCDF file")
    refused(cli("compare", good, tmp_path), str(tmp_path))
    arviz_io.save({"prior": arviz_io.dataset({"a": np.zeros((1, 5))})}, other)
    refused(cli("compare", good, other), "no posterior group", "prior")
    arviz_io.save({"posterior": arviz_io.dataset({"a": np.ones((1, 5))})}, other)
    refused(cli("compare", good, other), "no scalar in common", "mu", "a")
    refused(cli("compare", good, good, "--picture", tmp_path / "x.nonsense"), "nonsense")


def test_doctor_compiles_and_samples(cli: Cli) -> None:
    done = cli("doctor")
    assert done.code == 0, done.out
    for words in (
        "Python",
        "make",
        "C++ compiler",
        "httpstan",
        "cache",
        "log density and gradient are right",
    ):
        assert words in done.out


def test_doctor_says_how_to_mend_each_problem_and_goes_on(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("BRIDGESTAN", str(tmp_path))
    done = cli("doctor", "--json")
    assert done.code == 1
    findings = {finding["what"]: finding for finding in json.loads(done.out)}
    assert findings["Python"]["ok"] and findings["cache"]["ok"] and findings["stanli"]["ok"]
    for what in ("make", "C++ compiler", "gradient of a tiny model", "NUTS on a tiny model"):
        assert not findings[what]["ok"] and "install" in findings[what]["mend"]
    assert findings["installed BridgeStan"]["mend"] == "unset BRIDGESTAN"


def test_doctor_says_when_the_cache_cannot_be_written(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DAIS_STAN_CACHE", str(tmp_path / "file" / "cache"))
    done = cli("doctor", "--json")
    assert done.code == 1
    findings = {finding["what"]: finding for finding in json.loads(done.out)}
    assert not findings["cache"]["ok"] and findings["make"]["ok"]
    assert "DAIS_STAN_CACHE" in findings["cache"]["mend"]
