"""Mixtures: between sampling and VI on real models, what they report, files, the path, the command line."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import arviz
import numpy as np
import pytest

import dais_stan as ds
import infmix
from dais_stan import resources
from infmix.mixture import Mixture, chain_mean

MODELS = resources.stan_models()
LOG_EVIDENCE = np.log(2.0 * np.pi) + 0.5 * np.log(0.5)  # of the banana


def model(name: str) -> ds.Target:
    data = MODELS / f"{name}.data.json"
    return ds.Target.from_stan(MODELS / f"{name}.stan", data=data if data.exists() else None)


@pytest.fixture(scope="module")
def banana() -> ds.Target:
    return model("banana")


@pytest.fixture(scope="module")
def mixture(banana: ds.Target) -> Mixture:
    return quiet_sample(banana, 2.0, seed=1)


def quiet_sample(target: ds.Target, lam: float, **options: object) -> Mixture:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a divergence or two on a curved target
        return infmix.sample(target, lam, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name", ["eight_schools_noncentered", pytest.param("logistic_regression", marks=pytest.mark.slow)]
)
def test_from_sampling_to_variational_inference(name: str) -> None:
    agrees_with_nuts_and_vi(model(name))


@pytest.mark.slow
def test_from_sampling_to_variational_inference_on_ark(shared: Path) -> None:
    data = shared / "posteriordb" / "data" / "arK.json"
    agrees_with_nuts_and_vi(ds.Target.from_stan(MODELS / "posteriordb" / "arK.stan", data=data))


def agrees_with_nuts_and_vi(target: ds.Target) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        nuts = ds.sample(target, chains=4, seed=3)
        vi = ds.fit(target, method="meanfield", seed=3)
    point = quiet_sample(target, 1.0, seed=4)
    draws = np.stack([target.unconstrain(_one(nuts, i)) for i in range(4000)]).reshape(4, 1000, -1)
    ours, theirs = chain_mean(point.theta["mu"]), chain_mean(draws)
    assert np.all(np.abs(ours.value - theirs.value) < 4 * np.hypot(ours.se, theirs.se))
    squares = [chain_mean((x - theirs.value) ** 2) for x in (point.theta["mu"], draws)]
    assert np.all(np.abs(squares[0].value - squares[1].value) < 4 * np.hypot(squares[0].se, squares[1].se))
    np.testing.assert_allclose(point.mean, ours.value, atol=1e-3)

    single = quiet_sample(target, 1000.0, seed=4, nodes=512, iter_warmup=400, iter_sampling=100)
    assert np.all(np.abs(single.mean - vi.mean) < 0.05 * vi.sd)
    np.testing.assert_allclose(single.sd, vi.sd, rtol=0.04)


def _one(nuts: ds.NutsFit, i: int) -> dict[str, np.ndarray]:
    return {name: values[i] for name, values in nuts.draws().items()}


def test_at_lambda_one_there_is_no_density(banana: ds.Target) -> None:
    point = quiet_sample(banana, 1.0, seed=1, iter_warmup=300, iter_sampling=200)
    assert np.isnan(point.log_evidence) and np.isnan(point.khat)
    with pytest.raises(ValueError, match="no density"):
        point.log_prob(np.zeros(2))
    assert infmix.kl_error(point, 10).error == np.inf
    assert set(point.sampler.values) == {"mu"}


def test_evidence_and_khat(mixture: Mixture) -> None:
    assert mixture.log_evidence == pytest.approx(LOG_EVIDENCE, abs=5 * mixture.log_evidence_se)
    assert mixture.log_evidence_se < 0.05
    assert mixture.khat < 0.7


def test_draws_are_the_model_s_own_variables() -> None:
    target = model("eight_schools_noncentered")
    mixture = quiet_sample(target, 3.0, seed=2, iter_warmup=300, iter_sampling=300)
    draws = mixture.draws(50, seed=5)
    assert draws["theta"].shape == (50, 8)
    assert np.all(draws["tau"] > 0)
    groups = mixture.groups()
    assert groups["posterior"]["theta"].shape == (4, 300, 8)
    assert groups["theta"]["omega"].shape == (4, 300, 10)
    assert groups["sample_stats"]["diverging"].shape == (4, 300)
    assert "observed_data" in groups
    assert arviz.summary(mixture.to_arviz()) is not None


def test_expectations_exact_and_by_draws(mixture: Mixture) -> None:
    exact, drawn = mixture.expect(infmix.Squares()), mixture.expect(lambda x: x**2)
    assert np.all(exact.se < drawn.se)
    assert np.all(np.abs(exact.value - drawn.value) < 4 * np.hypot(exact.se, drawn.se))
    np.testing.assert_allclose(exact.value, np.diagonal(mixture.covariance) + mixture.mean**2, rtol=1e-9)
    with pytest.raises(ValueError, match="a value for each"):
        mixture.expect(lambda x: x.sum())


def test_the_frame_of_the_mixture(mixture: Mixture) -> None:
    # KL(m || p) = E KL(q || p) - I, which is what draws of the mixture say of it too.
    kl = infmix.expected_kl(mixture, LOG_EVIDENCE)
    information = infmix.mutual_information(mixture)
    x = mixture.unconstrained_draws(4000, seed=9)
    gap = mixture.log_prob(x) - mixture.target.log_density(x) + LOG_EVIDENCE
    se = gap.std() / np.sqrt(len(gap)) + kl.se + information.se
    assert kl.value - information.upper - 4 * se < gap.mean() < kl.value - information.lower + 4 * se
    one, ten, many = (infmix.kl_error(mixture, t, LOG_EVIDENCE) for t in (1, 10, 400))
    assert one.error == pytest.approx(float(kl.value), abs=4 * (one.se + kl.se))
    assert one.error > ten.error > many.error > many.bias_lower
    assert ten.bias_lower - 4 * se < gap.mean() < ten.bias_upper + 4 * se
    with pytest.raises(ValueError, match="components must be from 1 to 4000"):
        infmix.kl_error(mixture, 5000)


def test_fisher_information_of_a_gaussian_s_mixture() -> None:
    # In one dimension mu ~ N(m, S/lambda) and (lambda P / 2) sigma^2 ~ Gamma((lambda - 1) / 2), independent.
    from scipy.stats import gamma, norm

    lam = 4.0
    target = ds.Target.from_stan(MODELS / "gaussian.stan", data={"D": 1, "m": [0.0], "S": [[1.0]]})
    found = infmix.fisher_information(quiet_sample(target, lam, seed=1))
    log_precision = gamma((lam - 1.0) / 2.0)
    grid = np.linspace(-12.0, 4.0, 200_001)  # of log(lambda sigma^2 / 2), twice omega up to a constant
    density = log_precision.pdf(np.exp(grid)) * np.exp(grid)
    entropy = norm(scale=lam**-0.5).entropy() - np.trapezoid(density * np.log(density), grid) - np.log(2.0)
    mean_omega = 0.5 * (np.trapezoid(density * grid, grid) + np.log(2.0 / lam))
    expected = entropy + 0.5 * np.log(2.0) - mean_omega - np.log(2.0 * np.pi * np.e)
    assert found.value == pytest.approx(expected, abs=4 * found.se)
    assert found.se < 0.05


def test_saved_and_loaded(mixture: Mixture, tmp_path: Path) -> None:
    file = tmp_path / "mix.nc"
    mixture.save(file)
    again = infmix.load(file)
    for name in mixture.theta:
        np.testing.assert_array_equal(again.theta[name], mixture.theta[name])
    assert again.attributes() == mixture.attributes()
    np.testing.assert_array_equal(again.draws(20, seed=3)["x"], mixture.draws(20, seed=3)["x"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        ds.fit(mixture.target, "meanfield", seed=1, importance_draws=50).save(tmp_path / "fit.nc", n=10)
    with pytest.raises(ValueError, match="holds no mixture"):
        infmix.load(tmp_path / "fit.nc")


def test_same_seed_same_mixture(banana: ds.Target) -> None:
    options = {"iter_warmup": 100, "iter_sampling": 50}
    one, two, other = (quiet_sample(banana, 2.0, seed=seed, **options) for seed in (5, 5, 6))
    np.testing.assert_array_equal(one.theta["mu"], two.theta["mu"])
    assert not np.array_equal(one.theta["mu"], other.theta["mu"])


def test_the_path(banana: ds.Target) -> None:
    options = {"seed": 3, "iter_warmup": 500, "iter_sampling": 500}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        path = infmix.lambda_path(banana, (4.0, 1.0, 1.5, 2.0), **options)
        with ThreadPoolExecutor(2) as pool:
            side_by_side = infmix.lambda_path(banana, (1.0, 1.5, 2.0, 4.0), executor=pool, **options)
    np.testing.assert_array_equal(path.lams, [1.0, 1.5, 2.0, 4.0])
    for mine, theirs in zip(path.mixtures, side_by_side.mixtures, strict=True):
        np.testing.assert_array_equal(mine.theta["mu"], theirs.theta["mu"])
    few, many = path.choose(2), path.choose(500)
    assert few.lam > 1.0 and few.mixture.lam == few.lam
    assert many.lam <= few.lam
    lams = [lam for _, lam in path.schedule([1, 500, 20])]
    assert lams == sorted(lams, reverse=True)

    errors = path.squared_errors(infmix.Coordinates(), 10)
    variances = [entry.variance for entry in errors]
    assert variances == sorted(variances, reverse=True)
    assert errors[0].squared_bias == 0.0
    with pytest.raises(ValueError, match="lambda = 1"):
        infmix.LambdaPath(path.mixtures[1:]).squared_errors(infmix.Coordinates(), 10)


def test_an_empty_path_is_refused(banana: ds.Target) -> None:
    with pytest.raises(ValueError, match="at least one lambda"):
        infmix.lambda_path(banana, ())


def test_command_line(cli: Callable[..., object], tmp_path: Path) -> None:
    out = tmp_path / "mix.nc"
    short = ("--seed", 1, "--iter-warmup", 200, "--iter-sampling", 200)
    done = cli("mix", MODELS / "banana.stan", "--lam", "2.5", "--out", out, "--json", *short)
    assert done.code == 0, done.err  # type: ignore[attr-defined]
    record = json.loads(done.out)  # type: ignore[attr-defined]
    assert record["lambda"] == 2.5 and record["method"] == "mix" and "x" in record["summary"]
    assert infmix.load(out).lam == 2.5
    done = cli("mix", MODELS / "banana.stan", "--path", "--out", out, "--json", *short)
    rows = json.loads(done.out)["path"]  # type: ignore[attr-defined]
    assert rows[0]["lambda"] == 1.0 and rows[0]["kl_error"] is None
    assert all(Path(row["out"]).exists() for row in rows)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--lam", "two"], "--lam must be a number of at least 1 or auto"),
        (["--lam", "auto"], "--lam auto needs --budget"),
        (["--lam", "2", "--budget", "5"], "--budget is for --lam auto or --path"),
        (["--path", "--lam", "3"], "--path samples its own grid"),
        (["--lam", "0.5"], "lam must be at least 1"),
        (["--components", "round"], "components must be one of"),
    ],
)
def test_command_line_refusals(cli: Callable[..., object], arguments: list[str], message: str) -> None:
    done = cli("mix", MODELS / "banana.stan", *arguments)
    assert done.code == 2  # type: ignore[attr-defined]
    assert message in done.err  # type: ignore[attr-defined]
