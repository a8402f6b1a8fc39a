"""Programs and data that break libraries of this kind, by the number of the public complaint behind each.

What concerns data alone (R03) is in test_data.py. Where the engine does not matter it is stanli, which needs
no compiler.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import CliRun

import dais_stan as ds
from dais_stan import arviz_io

Cli = Callable[..., CliRun]


pytestmark = pytest.mark.usefixtures("quiet")


def stanli(code: str, data: Any = None) -> ds.Target:
    return ds.Target.from_stan(stan_code=code, data=data, engine="stanli")


SIMPLE = """
data { int<lower=0> n; int<lower=0, upper=n> y; }
parameters { real<lower=0, upper=1> th; }
model { th ~ beta(1, 1); y ~ binomial(n, th); }
"""


@pytest.mark.parametrize("engine", ["pypi", "stanli"])
def test_r01_a_folder_with_a_space_and_a_file_name_with_an_umlaut(
    cli: Cli, tmp_path: Path, engine: str
) -> None:
    folder = tmp_path / "my folder"
    folder.mkdir()
    program, data, out = folder / "münze.stan", folder / "münze.json", folder / "geschätzt.nc"
    program.write_text(SIMPLE, encoding="utf-8")
    data.write_text('{"n": 10, "y": 2}')
    done = cli("fit", program, "--data", data, "--engine", engine, "--seed", 1, "--out", out)
    assert done.code == 0, done.err
    assert float(arviz_io.read(out)["posterior"]["th"].mean()) == pytest.approx(0.25, abs=0.01)


def test_r01_nuts_in_such_a_folder(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "my folder"
    folder.mkdir()
    program, data, out = folder / "münze.stan", folder / "münze.json", folder / "gezogen.nc"
    program.write_text(SIMPLE, encoding="utf-8")
    data.write_text('{"n": 10, "y": 2}')
    done = cli("sample", program, "--data", data, "--seed", 1, "--out", out)
    assert done.code == 0, done.err
    assert float(arviz_io.read(out)["posterior"]["th"].mean()) == pytest.approx(0.25, abs=0.02)


ZERO = """
data { int<lower=0> N; int<lower=0> K; matrix[N, K] X; array[N] int<lower=0, upper=1> y; }
parameters { vector[K] b; real a; }
model { b ~ std_normal(); a ~ std_normal(); if (N > 0) y ~ bernoulli_logit(a + X * b); }
"""


@pytest.mark.parametrize("as_array", [False, True])
@pytest.mark.parametrize(("rows", "columns", "dim"), [(0, 1, 2), (3, 0, 1)])
def test_r02_data_without_rows_or_columns(rows: int, columns: int, dim: int, as_array: bool) -> None:
    X: Any = np.zeros((rows, columns)) if as_array else [[] for _ in range(rows)]
    y = np.zeros(rows, dtype=int) if as_array else [0] * rows
    target = stanli(ZERO, {"N": rows, "K": columns, "X": X, "y": y})
    assert target.dim == dim
    draws = ds.fit(target, seed=1).draws(10)
    assert draws["b"].shape == (10, columns) and draws["a"].shape == (10,)


SHAPES = """
parameters {
  real s; matrix[2, 3] M; array[2] vector[3] v; array[4, 0] real empty; row_vector[1] one;
}
model {
  s ~ std_normal();
  one ~ std_normal();
  for (i in 1 : 2) for (j in 1 : 3) {
    M[i, j] ~ normal(10 * i + j, 0.01);
    v[i][j] ~ normal(100 * i + j, 0.01);
  }
}
generated quantities { matrix[2, 3] twice = 2 * M; }
"""


def test_r04_draws_have_the_declared_shapes(tmp_path: Path) -> None:
    target = ds.Target.from_stan(stan_code=SHAPES)
    fit, nuts = ds.fit(target, seed=1), ds.sample(target, chains=2, seed=1, iter_sampling=100)
    for posterior in (fit.groups(100)["posterior"], nuts.groups()["posterior"]):
        shapes = {name: array.shape[2:] for name, array in posterior.data_vars.items()}
        assert shapes == {"s": (), "M": (2, 3), "v": (2, 3), "empty": (4, 0), "one": (1,), "twice": (2, 3)}
        mean = posterior.mean(("chain", "draw"))
        np.testing.assert_allclose(mean["M"], [[11, 12, 13], [21, 22, 23]], atol=0.02)
        np.testing.assert_allclose(mean["v"], [[101, 102, 103], [201, 202, 203]], atol=0.02)
        np.testing.assert_allclose(mean["twice"], 2 * mean["M"])
    for result in (fit, nuts):
        result.save(tmp_path / "out.nc")
        assert arviz_io.read(tmp_path / "out.nc")["posterior"]["empty"].shape[2:] == (4, 0)
    assert "M[2,3]" in fit.summary().index and "one[1]" in nuts.summary().index


LKJ = """
data { int<lower=2> K; }
parameters { cholesky_factor_corr[K] L; }
model { L ~ lkj_corr_cholesky(1); }
"""


@pytest.mark.parametrize("K", [20, 40])
def test_r06_a_start_nearer_the_origin_is_found_and_told(K: int, caplog: pytest.LogCaptureFixture) -> None:
    target = stanli(LKJ, {"K": K})
    with caplog.at_level(logging.INFO, "dais_stan"):
        start = target.find_finite_start(np.random.default_rng(0))
    assert np.isfinite(target.log_density(start))
    if np.abs(start).max() < 0.99:  # found at a smaller radius than Stan's 2
        assert "no finite point at radius 2" in caplog.text
    fit = ds.fit(target, "meanfield", seed=1, schedule=ds.Schedule(max_iterations=300))
    assert np.isfinite(fit.elbo)
    factors = fit.draws(5)["L"]
    np.testing.assert_allclose((factors**2).sum(axis=2), 1.0)


def test_r06_chains_of_nuts_start_too(caplog: pytest.LogCaptureFixture) -> None:
    target = ds.Target.from_stan(stan_code=LKJ, data={"K": 20})
    with caplog.at_level(logging.INFO, "dais_stan"):
        nuts = ds.sample(target, chains=1, seed=1, iter_warmup=20, iter_sampling=10)
    assert np.isfinite(nuts.values["L"]).all()
    if nuts.init_radius is not None and nuts.init_radius < 2:
        assert "no finite start" in caplog.text


REJECT = """
parameters { real x; }
model { if (x < 0) reject("x is negative: ", x); x ~ gamma(2, 1); }
"""


def test_r07_rejected_points_are_counted() -> None:
    fit = ds.fit(stanli(REJECT), seed=1)
    assert fit.counts.rejected > 0 and "x is negative" in fit.counts.last_rejection
    assert 1.0 < fit.mean[0] < 3.0  # the truth is 2
    assert not any("nan" in text.lower() for text in fit.warnings)


def test_r07_undeclared_bounds_are_hinted_at(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "support.stan").write_text("parameters { real x; } model { x ~ uniform(5, 6); }")
    for done in (
        cli("fit", tmp_path / "support.stan", "--engine", "stanli"),
        cli("sample", tmp_path / "support.stan"),
    ):
        assert done.code == 2 and "No finite point" in done.err and "declare it with bounds" in done.err


def test_r08_no_parameters_is_one_polite_sentence() -> None:
    code = "data { real y; } generated quantities { real z = normal_rng(y, 1); }"
    with pytest.raises(ds.TargetError, match=r"declares no parameters, so there is nothing to infer\.$"):
        stanli(code, {"y": 1})


FUNNEL = """
data { int<lower=1> D; }
parameters { real v; vector[D] x; }
model { v ~ normal(0, 3); x ~ normal(0, exp(v / 2)); }
"""


def test_r09_the_funnel_is_kept_and_not_called_good() -> None:
    fit = ds.fit(stanli(FUNNEL, {"D": 9}), "meanfield", seed=1)
    assert not fit.converged or fit.khat > 0.7
    assert fit.warnings and "Not to be trusted" in fit.verdict()
    assert fit.sd[0] < 3.0
    draws = fit.draws(100)
    assert draws["x"].shape == (100, 9) and np.isfinite(draws["x"]).all()


GENERATED = """
parameters { real mu; }
model { mu ~ std_normal(); }
generated quantities { real u = uniform_rng(0, 1); real yrep = normal_rng(mu, 1); }
"""


def test_r10_generated_quantities_differ_between_draws_and_chains_and_repeat() -> None:
    target = ds.Target.from_stan(stan_code=GENERATED)
    fit = ds.fit(target, seed=1)
    one, again, other = (fit.draws(500, seed=seed) for seed in (2, 2, 3))
    assert len(np.unique(one["u"])) == 500
    np.testing.assert_array_equal(one["u"], again["u"])
    assert not np.array_equal(one["u"], other["u"])
    assert np.std(one["yrep"]) == pytest.approx(2**0.5, rel=0.15)

    nuts, repeated = (ds.sample(target, chains=2, seed=5, iter_sampling=200) for _ in range(2))
    assert len(np.unique(nuts.values["u"])) == 400
    np.testing.assert_array_equal(nuts.values["u"], repeated.values["u"])


TARGET_PLUS = """
data { int<lower=0> n; int<lower=0, upper=n> y; }
parameters { real<lower=0, upper=1> th; }
model { target += beta_lpdf(th | 1, 1) + binomial_lpmf(y | n, th); }
"""


@pytest.mark.parametrize("code", [SIMPLE, TARGET_PLUS], ids=["tilde", "target"])
@pytest.mark.parametrize("method", ["meanfield", "fullrank"])
def test_r11_the_evidence_is_within_its_error_whichever_way_the_program_is_written(
    code: str, method: str
) -> None:
    fit = ds.fit(ds.Target.from_stan(stan_code=code, data={"n": 10, "y": 2}), method, seed=1)
    assert fit.target.normalized
    assert abs(fit.log_evidence - -np.log(11.0)) < 3 * fit.log_evidence_se
    assert 0 < fit.log_evidence_se < 0.01


TUPLES = """
parameters { tuple(real, vector[2]) t; array[2] tuple(real, real) at; complex z; }
model {
  t.1 ~ std_normal();
  t.2 ~ std_normal();
  for (i in 1 : 2) { at[i].1 ~ std_normal(); at[i].2 ~ normal(5, 1); }
  get_real(z) ~ std_normal();
  get_imag(z) ~ normal(-5, 1);
}
"""


def test_r13_tuples_and_complex_numbers(tmp_path: Path) -> None:
    target = ds.Target.from_stan(stan_code=TUPLES)
    fit, nuts = ds.fit(target, seed=1), ds.sample(target, chains=2, seed=1, iter_sampling=200)
    for result in (fit, nuts):
        result.save(tmp_path / "tuples.nc")
        mean = arviz_io.read(tmp_path / "tuples.nc")["posterior"].mean(("chain", "draw"))
        assert mean["t.2"].shape == (2,)
        np.testing.assert_allclose(mean["at.2"], [5, 5], atol=0.3)
        np.testing.assert_allclose([mean["z.real"], mean["z.imag"]], [0, -5], atol=0.3)


def test_r14_one_standard_normal() -> None:
    fit = ds.fit(stanli("parameters { real x; } model { x ~ std_normal(); }"), seed=1)
    assert fit.converged and 200 <= fit.iterations < 10_000
    assert np.isfinite(fit.khat) and fit.khat < 0.5


def test_r16_a_factor_that_does_not_fit_is_refused_with_its_size(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "funnel.stan").write_text(FUNNEL)
    (tmp_path / "big.json").write_text(json.dumps({"D": 20_000}))
    done = cli("fit", tmp_path / "funnel.stan", "--data", tmp_path / "big.json", "--engine", "stanli")
    assert done.code == 2 and "3.2 GB" in done.err and "20001" in done.err


def test_r17_old_array_syntax(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "old.stan").write_text("parameters { real x[2]; }\nmodel { x ~ normal(0, 1); }\n")
    done = cli("fit", tmp_path / "old.stan")
    assert done.code == 2 and done.out == ""
    assert "old.stan" in done.err and "line 1" in done.err
    assert "array[2] real x" in done.err or "array keyword" in done.err


@pytest.mark.parametrize("engine", ["pypi", "stanli"])
def test_r18_an_edited_program_is_the_one_that_is_fitted(tmp_path: Path, engine: str) -> None:
    file = tmp_path / "edited.stan"
    means = []
    for centre in (0, 7):
        file.write_text(f"parameters {{ real mu; }} model {{ mu ~ normal({centre}, 1); }}")
        means.append(ds.fit(ds.Target.from_stan(file, engine=engine), seed=1).mean[0])
    np.testing.assert_allclose(means, [0, 7], atol=0.02)


def test_r20_the_same_seed_gives_the_same_draws_on_any_number_of_threads() -> None:
    draws = []
    for threads in (1, 2) * 3:
        target = ds.Target.from_stan(stan_code=GENERATED, threads=threads)
        draws.append(ds.fit(target, seed=9).draws(200))
    for other in draws[1:]:
        for name, values in draws[0].items():
            np.testing.assert_array_equal(values, other[name])
