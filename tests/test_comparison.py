"""Standardised errors, their names, and words for them."""

import json

import numpy as np
import pytest
import xarray as xr

import dais_stan as ds
from dais_stan import arviz_io, plots


def posterior(**arrays):
    return arviz_io.dataset(arrays)


def normal(seed, *shape):
    return np.random.default_rng(seed).standard_normal((4, 1000, *shape))


def test_errors_are_in_units_of_the_reference():
    a = posterior(x=3.0 + 4.0 * normal(1), v=normal(2, 2))
    b = posterior(x=1.0 + 2.0 * normal(3), v=normal(4, 2))
    result = ds.compare(a, b)
    assert result.names == ["x", "v[1]", "v[2]"]
    assert result.mean_error[0] == pytest.approx(1.0, abs=0.1)
    assert result.log_sd_ratio[0] == pytest.approx(np.log(2), abs=0.05)
    assert result.worst_mean_error[0] == result.worst_log_sd_ratio[0] == "x"
    assert result.mcse[1] == pytest.approx(np.sqrt(2 / 4000), rel=0.2)
    assert "disagree" in result.verdict() and "(x)" in result.verdict()


def test_the_same_draws_agree():
    a = posterior(x=normal(1))
    assert ds.compare(a, a).verdict().startswith("A and B agree:")


def test_a_matrix_is_named_by_row_and_column():
    m = normal(1, 2, 3)
    m[..., 1, 2] += 5
    assert ds.compare(posterior(m=m), posterior(m=normal(2, 2, 3))).worst_mean_error[0] == "m[2,3]"


def test_constants_and_one_sided_scalars_are_listed_not_compared():
    constant = np.ones((4, 1000))
    a = posterior(x=normal(1), c=constant, mine=normal(2))
    b = posterior(x=normal(3), c=constant, yours=normal(4))
    result = ds.compare(a, b)
    assert (result.names, result.constant) == (["x"], ["c"])
    assert (result.only_a, result.only_b) == (["mine"], ["yours"])


def test_a_spread_of_zero_is_reported_as_infinitely_small():
    result = ds.compare(posterior(x=np.ones((1, 100))), posterior(x=normal(1)))
    assert result.log_sd_ratio[0] == -np.inf


def test_too_few_draws_are_said():
    few = posterior(x=np.random.default_rng(0).standard_normal((1, 50)))
    assert "too few" in ds.compare(few, posterior(x=normal(1))).verdict()


def test_nothing_in_common_is_refused_with_both_lists():
    with pytest.raises(ValueError, match="A has x, B has y"):
        ds.compare(posterior(x=normal(1)), posterior(y=normal(2)))


def test_files_are_read_and_results_go_to_json(tmp_path):
    for name, seed in (("a", 1), ("b", 2)):
        arviz_io.save({"posterior": posterior(x=normal(seed))}, tmp_path / f"{name}.nc")
    result = ds.compare(tmp_path / "a.nc", tmp_path / "b.nc")
    assert json.loads(json.dumps(result.to_dict()))["scalars"][0]["name"] == "x"


@pytest.mark.parametrize("content", [None, b"not netCDF"])
def test_a_file_that_is_no_result_is_refused_by_name(tmp_path, content):
    path = tmp_path / "x.nc"
    if content:
        path.write_bytes(content)
    with pytest.raises(ValueError, match=r"x\.nc"):
        arviz_io.read(path)


def test_a_file_without_a_posterior_is_refused(tmp_path):
    arviz_io.save({"prior": xr.Dataset({"x": ("draw", np.zeros(3))})}, tmp_path / "x.nc")
    with pytest.raises(ValueError, match=r"no posterior group; its groups are \['prior'\]"):
        arviz_io.read(tmp_path / "x.nc")


def test_empty_variables_survive_a_file_and_a_summary(tmp_path):
    groups = {"posterior": posterior(x=normal(1), none=np.zeros((4, 1000, 3, 0)))}
    arviz_io.save(groups, tmp_path / "x.nc")
    again = arviz_io.read(tmp_path / "x.nc")["posterior"]
    assert again["none"].shape == (4, 1000, 3, 0)
    assert list(arviz_io.summary(again).index) == ["x"]


def test_a_variable_with_a_dimensions_name_is_kept_under_another(tmp_path):
    with pytest.warns(UserWarning, match="variable draw is draw_"):
        named = posterior(
            draw=normal(1), chain=normal(2, 2), chain_=normal(3), x=normal(4, 2), x_dim_0=normal(5)
        )
    assert sorted(map(str, named.data_vars)) == ["chain_", "chain__", "draw_", "x", "x_dim_0_"]
    arviz_io.save({"posterior": named}, tmp_path / "x.nc")
    again = arviz_io.scalars(arviz_io.read(tmp_path / "x.nc")["posterior"])
    assert sorted(again) == ["chain_", "chain__[1]", "chain__[2]", "draw_", "x[1]", "x[2]", "x_dim_0_"]


def test_marginals_draw_a_panel_for_each_scalar(tmp_path):
    pair = {"fit": posterior(v=normal(1, 6)), "nuts": posterior(v=normal(2, 6))}
    figure = plots.marginals(pair)
    titles = [axes.get_title() for axes in figure.axes if axes.axison]
    assert titles == [f"v[{i}]" for i in range(1, 7)]
    plots.save(plots.marginals(pair, names=["v[2]"]), tmp_path / "m.png")
    assert (tmp_path / "m.png").stat().st_size > 1000
    with pytest.raises(ValueError, match=r"'w' is not a scalar"):
        plots.marginals(pair, names=["w"])
