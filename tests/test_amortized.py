"""Amortised inference: the encoder's and the bound's gradients, unbiased batches, a closed form, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from densities import central_difference
from scipy import stats

import dais_stan as ds
from dais_stan.amortized import fit_amortized, load_amortized
from dais_stan.amortized.batches import divide
from dais_stan.amortized.encoder import Encoder
from dais_stan.amortized.objective import AmortizedElbo, Posterior
from dais_stan.families.flow_family import FLOWS
from dais_stan.families.flows import Chain

#: x_n ~ N(z_n + m, 0.5), z_n ~ N(0, 1), m ~ N(0, 2): everything is Gaussian.
FACTOR = """
data { int<lower=0> N; array[N] vector[2] x; }
parameters { array[N] vector[2] z; vector[2] m; }
model {
  m ~ normal(0, 2);
  for (n in 1:N) { z[n] ~ std_normal(); x[n] ~ normal(z[n] + m, 0.5); }
}
"""
H = 1e-6


@pytest.fixture
def rng():
    return np.random.default_rng(20241103)


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("amortised") / "factor.stan"
    path.write_text(FACTOR)
    return path


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(1)
    return {"N": 60, "x": rng.normal(0.0, np.sqrt(1.25), (60, 2)) + np.array([1.0, -2.0])}


def opener(program):
    return lambda values: ds.Target.from_stan(program, data=values, engine="stanli")


def test_encoder_pullback_is_the_gradient(rng):
    encoder = Encoder(3, (4, 5), (2, 1))
    params = encoder.initial(rng, (np.ones(2), np.zeros(1))) + 0.3 * rng.standard_normal(encoder.n_params)
    x, bars = rng.standard_normal((6, 3)), (rng.standard_normal((6, 2)), rng.standard_normal((6, 1)))

    def scalar(p):
        return sum((bar * head).sum() for bar, head in zip(bars, encoder.forward(p, x)[0], strict=True))

    found = encoder.pullback(params, encoder.forward(params, x)[1], bars)
    np.testing.assert_allclose(found, central_difference(scalar, params), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("kind", [None, *FLOWS])
@pytest.mark.parametrize("gaussian", [False, True])
@pytest.mark.parametrize("weight", [1.0, 0.3])
def test_gradient_of_the_bound(program, data, kind, gaussian, weight, rng):
    batches = divide(opener(program), data, ["z"], ["x"], 25, rng)
    chain = None if kind is None else Chain(2, [FLOWS[kind](2, None, i) for i in range(2)])
    posterior = Posterior(2, 2, (4,), chain)
    objective = AmortizedElbo(batches, posterior, gaussian, 0)
    params = objective.initial(rng, rng.standard_normal(2))
    params += 0.2 * rng.standard_normal(len(params))
    batch = batches.each[-1]
    assert len(batch.inputs) == 10
    eps, noise = rng.standard_normal((10, 2)), rng.standard_normal(2) if gaussian else None

    found = objective.at(params, batch, eps, noise, weight).gradient
    for way in rng.standard_normal((4, len(params))):
        up, down = (objective.at(params + s * way, batch, eps, noise, weight).value for s in (H, -H))
        np.testing.assert_allclose(found @ way, (up - down) / (2 * H), rtol=1e-5, atol=1e-5)


def test_batches_add_up_to_the_whole(program, data, rng):
    """The weighted mean of the batches' bounds is the bound of all observations in one batch."""
    posterior = Posterior(2, 2, (4,), None)
    whole = divide(opener(program), data, ["z"], ["x"], 60, np.random.default_rng(5))
    parts = divide(opener(program), data, ["z"], ["x"], 25, np.random.default_rng(5))  # in the same order
    objective = AmortizedElbo(whole, posterior, False, 0)
    params = objective.initial(rng, np.array([0.7, -1.0]))
    eps = rng.standard_normal((60, 2))
    expected = objective.at(params, whole.each[0], eps, None)
    in_parts, begin = AmortizedElbo(parts, posterior, False, 0), 0
    value, gradient = 0.0, np.zeros_like(params)
    for batch in parts.each:
        size = len(batch.inputs)
        estimate = in_parts.at(params, batch, eps[begin : begin + size], None)
        value += estimate.value * size / 60
        gradient += estimate.gradient * size / 60
        begin += size
    np.testing.assert_allclose(value, expected.value, rtol=1e-9)
    np.testing.assert_allclose(gradient, expected.gradient, rtol=1e-7, atol=1e-9)


def test_the_places_of_matrices_and_of_constrained_parameters(tmp_path):
    program = tmp_path / "mixed.stan"
    program.write_text(
        "data { int<lower=0> N; int K; array[N] real y; }"
        "parameters { matrix[N, 2] a; real<lower=0> s; array[N] simplex[K] p; }"
        "model { to_vector(a) ~ std_normal(); s ~ exponential(1);"
        "  for (n in 1:N) y[n] ~ normal(a[n, 1] + p[n, 1], s); }"
    )
    batches = divide(
        opener(program),
        {"N": 3, "K": 3, "y": [0.1, 0.2, 0.3]},
        ["a", "p"],
        ["y"],
        2,
        np.random.default_rng(1),
    )
    batch = batches.each[0]
    names = np.array(batch.target.names)
    assert [set(row) for row in names[batch.local]] == [
        {f"a.{n}.1", f"a.{n}.2", f"p.{n}.1", f"p.{n}.2"} for n in (1, 2)
    ]
    assert list(names[batch.shared]) == ["s"] and batches.shared_names == ("s",)


@pytest.mark.parametrize("family", ["meanfield", "o-sylvester"])
def test_a_gaussian_model_is_fitted_exactly(program, data, family):
    """z_n | x_n, m is N(0.8 (x_n - m), 0.2) and the shared m has a posterior in closed form."""
    schedule = ds.Schedule(learning_rates=(0.01,), max_iterations=1500, fixed=True, beta2=0.999)
    fit = fit_amortized(
        program,
        data=data,
        local="z",
        condition="x",
        family=family,
        flows=2,
        shared="meanfield",
        widths=(16,),
        batch=20,
        annealing=200,
        schedule=schedule,
        seed=1,
        engine="stanli",
    )
    precision = 60 / 1.25 + 0.25
    mean = data["x"].sum(axis=0) / 1.25 / precision
    np.testing.assert_allclose(fit.shared, mean, atol=0.1)
    assert fit.shared_names == ("m.1", "m.2")
    z, log_q = fit.sample(data["x"], 400, seed=3)
    assert z.shape == (400, 60, 2) and log_q.shape == (400, 60)
    expected = 0.8 * (data["x"] - fit.shared)
    assert np.abs(z.mean(axis=0) - expected).mean() < 0.08
    np.testing.assert_allclose(z.std(axis=0).mean(), np.sqrt(0.2), rtol=0.06)
    density = stats.norm(expected, np.sqrt(0.2)).logpdf(z).sum(axis=-1)
    assert abs((log_q - density).mean()) < 0.06  # KL(q || p) of an observation


def test_shared_parameters_can_be_points(program, data):
    schedule = ds.Schedule(learning_rates=(0.02,), max_iterations=600, fixed=True, beta2=0.999)
    options = {"local": "z", "condition": ["x"], "widths": (8,), "batch": 30, "schedule": schedule}
    fits = [fit_amortized(program, data=data, seed=1, engine="stanli", **options) for _ in range(2)]
    assert fits[0].shared_sd is None
    np.testing.assert_allclose(fits[0].shared, data["x"].mean(axis=0), atol=0.15)
    np.testing.assert_array_equal(fits[0].params, fits[1].params)
    assert fits[0].elbo(5, seed=1) == pytest.approx(fits[0].optimum.trace.value[-1], abs=0.3)


@pytest.mark.parametrize("shared", ["point", "meanfield"])
def test_a_fit_goes_to_arviz_and_survives_its_file(program, data, shared, tmp_path):
    schedule = ds.Schedule(learning_rates=(0.02,), max_iterations=100, fixed=True)
    options = {"local": "z", "condition": "x", "family": "planar", "flows": 2, "shared": shared}
    fit = fit_amortized(program, data=data, engine="stanli", batch=25, schedule=schedule, seed=2, **options)
    posterior = fit.to_arviz(50)["posterior"]
    assert posterior["z"].shape == (1, 50, 60, 2) and posterior["m"].shape == (1, 50, 2)
    assert (np.ptp(posterior["m"].to_numpy(), axis=1) > 0).all() == (shared == "meanfield")
    points = fit.unconstrained_draws(3, seed=5)[0]
    np.testing.assert_array_equal(fit.draws(3, seed=5)["z"].reshape(3, -1), points[:, :120])
    again, part = fit.unconstrained_draws(1, seed=5)
    expected = (
        0.0 if shared == "point" else stats.norm(fit.shared, fit.shared_sd).logpdf(again[0, 120:]).sum()
    )
    local = fit.sample(data["x"], 1, np.random.SeedSequence(5).generate_state(2).tolist()[0])
    np.testing.assert_array_equal(local[0].ravel(), again[0, :120])
    assert part[0] == pytest.approx(local[1].sum() + expected)

    fit.save(tmp_path / "fit.nc", n=10)
    loaded = load_amortized(tmp_path / "fit.nc")
    assert loaded.options == fit.options and loaded.elbo(1) == fit.elbo(1)
    np.testing.assert_array_equal(loaded.unconstrained_draws(3, seed=5)[0], points)
    with pytest.raises(ValueError, match="x must have 2 numbers for each observation, found shape"):
        loaded.sample(np.zeros((4, 3)), 1)


def test_numpys_whole_numbers_go_into_the_file(program, data, tmp_path):
    one, schedule = np.int64(1), ds.Schedule(max_iterations=np.int64(50), learning_rates=(0.01,), fixed=True)
    options = {"family": "planar", "flows": one, "widths": [np.int64(4)], "batch": np.int64(30), "seed": one}
    fit = fit_amortized(
        program, data=data, local="z", condition="x", engine="stanli", schedule=schedule, **options
    )
    fit.save(tmp_path / "fit.nc", n=np.int64(5))
    assert load_amortized(tmp_path / "fit.nc").options.flows == 1


def test_a_run_without_a_bound_is_warned_of(data, tmp_path):
    broken = tmp_path / "broken.stan"
    broken.write_text(FACTOR.replace("m ~", 'if (N > 0) reject("no"); m ~'))
    schedule = ds.Schedule(learning_rates=(0.01,), max_iterations=700, fixed=True)
    with pytest.warns(UserWarning, match="the bound was not finite in most of 500 steps .*no"):
        fit = fit_amortized(broken, data=data, local="z", condition="x", engine="stanli", schedule=schedule)
    assert "Not to be trusted" in fit.verdict()


def test_one_observation_is_enough(program):
    schedule = ds.Schedule(learning_rates=(0.01,), max_iterations=20, fixed=True)
    options = {"local": "z", "condition": "x", "engine": "stanli", "schedule": schedule}
    fit = fit_amortized(program, data={"N": 1, "x": [[0.5, 1.0]]}, **options)
    assert fit.sample([[0.5, 1.0]], 3)[0].shape == (3, 1, 2)


@pytest.mark.parametrize(
    ("parameters", "model", "message"),
    [
        ("ordered[N] z;", "z ~ normal(0, 1); x[:, 1] ~ normal(z, 1);", "rows of z must be independent"),
        ("vector[N] z;", "z[2:N] ~ normal(z[1:N - 1], 1); x[:, 1] ~ normal(z, 1);", "must be independent"),
        ("vector[N] z; vector[N] w;", "z ~ normal(w, 1); w ~ normal(0, 1);", "w must be named local"),
        ("matrix[N, N] z;", "to_vector(z) ~ normal(0, 1);", "must have one size, and it changes with N"),
    ],
)
def test_rows_that_do_not_stand_alone_are_refused(tmp_path, data, parameters, model, message):
    program = tmp_path / "rows.stan"
    head = "data { int<lower=0> N; array[N, 2] real x; } "
    program.write_text(f"{head} parameters {{ {parameters} }} model {{ {model} }}")
    with pytest.raises(ValueError, match=message):
        fit_amortized(program, data=data, local="z", condition="x", batch=25, engine="stanli")


def test_a_damaged_file_is_refused(program, data, tmp_path):
    schedule = ds.Schedule(learning_rates=(0.01,), max_iterations=20, fixed=True)
    fit = fit_amortized(program, data=data, local="z", condition="x", engine="stanli", schedule=schedule)
    fit.save(tmp_path / "fit.nc", n=5)
    content = bytearray((tmp_path / "fit.nc").read_bytes())
    for place in np.random.default_rng(1).integers(0, len(content), 300):
        content[place] ^= 0xFF
    (tmp_path / "fit.nc").write_bytes(content)
    with pytest.raises(ValueError, match="is not a netCDF file"):
        load_amortized(tmp_path / "fit.nc")


def test_a_file_of_another_kind_is_refused(program, data, tmp_path):
    target = ds.Target.from_stan(
        stan_code="parameters { real x; } model { x ~ std_normal(); }", engine="stanli"
    )
    ds.fit(target, seed=1).save(tmp_path / "fit.nc")
    with pytest.raises(ValueError, match="holds no amortised fit; its groups are"):
        load_amortized(tmp_path / "fit.nc")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"local": "N"}, "local must name parameters of factor.stan with one row for each"),
        ({"local": ()}, "local must be one name or several"),
        ({"condition": 3}, "condition must be one name or several"),
        ({"flows": 2.5, "family": "planar"}, "flows must be a whole number, found 2.5"),
        ({"batch": "5"}, "batch must be a whole number, found '5'"),
        ({"annealing": float("inf")}, "annealing must be a whole number, found inf"),
        ({"widths": (8.5,)}, "widths must be a whole number, found 8.5"),
        ({"seed": -1}, "seed must be at least 0, found -1"),
        ({"data": {"N": 0, "x": np.zeros((0, 2))}}, "there must be at least one observation"),
        ({"shared_start": {"m": [0.0, 0.0], "q": 1}}, "shared_start must name shared parameters, found q"),
        ({"shared_start": {"m": [np.nan, 0.0]}}, "shared_start must be finite"),
        ({"columns": 1}, "columns is an option of o-sylvester, not of family 'meanfield'"),
        ({"widths": ()}, "widths must be at least one number"),
        ({"local": "w"}, "with one row for each observation, found w among z, m"),
        ({"local": "m"}, "no single integer in the data sizes both m and x by 60"),
        ({"condition": "y"}, "condition must name data, and y is not among"),
        ({"batch": 0}, "batch must be at least 1, found 0"),
        ({"family": "glow"}, "family must be one of meanfield, planar"),
        ({"shared": "flow"}, "shared must be 'point' or 'meanfield', found 'flow'"),
    ],
)
def test_a_bad_argument_is_named(program, data, change, message):
    options = {"data": data, "local": "z", "condition": "x", "engine": "stanli", **change}
    with pytest.raises(ValueError, match=message):
        fit_amortized(program, **options)


def test_a_program_that_needs_observations_is_refused(tmp_path, data):
    program = tmp_path / "some.stan"
    program.write_text(FACTOR.replace("int<lower=0> N", "int<lower=1> N"))
    with pytest.raises(ValueError, match="the program must admit N = 0"):
        fit_amortized(program, data=data, local="z", condition="x", engine="stanli")
