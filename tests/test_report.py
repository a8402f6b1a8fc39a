"""Reports: one page that needs nothing else, escapes everything, and says what the result says."""

from __future__ import annotations

import json
import warnings
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import dais_stan as ds
from dais_stan import arviz_io
from dais_stan.report import write_report

CODE = "parameters { vector[2] x; real<lower=0> s; } model { x ~ normal(0, 1); s ~ exponential(1); }"


class Reader(HTMLParser):
    """Text, tags and addresses of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.tags.append(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "href", "xlink:href")]
        if tag not in ("meta", "br", "path", "use", "rect"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self.open:
            while self.open.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        target = ds.Target.from_stan(stan_code=CODE, engine="stanli")
        ds.fit(target, "auto", seed=1).save(folder / "a.nc")
        ds.fit(target, "meanfield", seed=2).save(folder / "b.nc")
    return folder


def read(path: Path) -> Reader:
    html = path.read_text()
    reader = Reader(html)
    assert reader.open == [] or set(reader.open) <= {"defs", "g"}, reader.open
    # Everything is in the page: an address is a part of it, or the name of an XML standard.
    assert all(address.startswith("#") for address in reader.addresses)
    assert "<link" not in html and "@import" not in html and "url(http" not in html
    return reader


def test_a_fit_against_a_reference(results: Path, tmp_path: Path) -> None:
    page = write_report(results / "a.nc", tmp_path / "a.html", results / "b.nc")
    reader = read(tmp_path / "a.html")
    assert page.good is True and "No trouble found" in reader.text and "A and B agree" in reader.text
    assert "Took fullrank" in reader.text and "k-hat" in reader.text
    assert reader.tags.count("svg") == 2 + 3  # intervals, objective, a marginal each
    assert [heading for heading in page.tables[0].headings if "error" in heading]
    assert [line[0][0] for line in page.tables[0].rows] == ["x[1]", "x[2]", "s"]
    assert reader.tags.count("tr") == 1 + 3


def test_tables_have_what_they_are_sorted_by(results: Path, tmp_path: Path) -> None:
    write_report(results / "b.nc", tmp_path / "b.html")
    html = (tmp_path / "b.html").read_text()
    assert html.count("data-order") == 3 * 6
    assert "<script src" not in html


def test_everything_is_escaped(results: Path, tmp_path: Path) -> None:
    groups = arviz_io.read(results / "a.nc")
    groups["posterior"] = groups["posterior"].rename({"s": "s<i>&"})
    groups["posterior"].attrs |= {"method": "<script>alert(1)</script>", "verdict": "<b>bold</b> & more"}
    groups["posterior"].attrs["choice"] = "<img src=x onerror=alert(1)>"
    arviz_io.save({"posterior": groups["posterior"]}, tmp_path / "evil.nc")
    write_report(tmp_path / "evil.nc", tmp_path / "evil.html")
    html = (tmp_path / "evil.html").read_text()
    reader = read(tmp_path / "evil.html")
    assert "<script>alert" not in html and "<img" not in html and "<b>" not in html and "s<i>" not in html
    assert "<b>bold</b> & more" in reader.text
    assert reader.tags.count("script") == 1


def benchmark(folder: Path) -> Path:
    rng = np.random.default_rng(1)
    rows = []
    for posterior in ("data<1>-model", "b-c"):
        for method, cost in (("auto", 10_000), ("nuts", 200_000), ("laplace", None)):
            rows.append(
                {
                    "posterior": posterior, "method": method, "seed": 1, "engine": "stanli", "budget": None,
                    "failure": None, "worst_mean_error": rng.uniform(0.01, 0.4), "worst_log_sd": 0.05,
                    "khat": 0.5, "warned": None if cost is None else False, "gradients": cost,
                    "evaluations": cost, "run_seconds": 1.0, "said": "Took <it>.",
                }
            )  # fmt: skip
    rows[-1] |= {"failure": "RuntimeError: <no>", "worst_mean_error": None, "worst_log_sd": None}
    folder.mkdir()
    machine = {"platform": "Linux", "processor": "x86_64", "cpus": 2}
    (folder / "posteriordb.json").write_text(json.dumps({"machine": machine, "rows": rows}))
    return folder


def test_a_benchmark(tmp_path: Path, cli) -> None:
    folder = benchmark(tmp_path / "bench")
    run = cli("report", folder, "--out", tmp_path / "r.html")
    assert run.code == 0 and "auto: every mean and sd within 0.1" in run.out
    reader = read(tmp_path / "r.html")
    assert "data<1>-model" in reader.text and "RuntimeError: <no>" in reader.text
    assert "<1>" not in (tmp_path / "r.html").read_text()
    assert reader.tags.count("svg") == 2 and reader.tags.count("table") == 2


def test_what_is_no_result_is_named(tmp_path: Path, cli) -> None:
    (tmp_path / "empty").mkdir()
    empty = cli("report", tmp_path / "empty", "--out", tmp_path / "r.html")
    assert empty.code == 2 and "holds no finished benchmark" in empty.err
    missing = cli("report", tmp_path / "no.nc", "--out", tmp_path / "r.html")
    assert missing.code == 2 and "no such file" in missing.err
    arviz_io.save({"posterior": arviz_io.dataset({"x": np.zeros((1, 3))})}, tmp_path / "bare.nc")
    bare = cli("report", tmp_path / "bare.nc", "--out", tmp_path / "r.html")
    assert bare.code == 2 and "was not written by dais-stan" in bare.err
