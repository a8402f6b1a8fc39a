# make demo   fit eight schools, sample it with NUTS, compare, draw: everything from nothing, into demo/
# make test   the tests; make lint: style and types
# make bench  every method on eight posteriors with a reference, and the report on them, into bench/
# make studies  the quick version of each table and figure in benchmarks/
# PYTHON=python3.12 chooses the Python that .venv is made with.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Processes for the tests; compiling Stan programs is most of their time.
JOBS ?= 2
MODEL := stan_models/eight_schools_noncentered
METHODS ?= auto,meanfield,fullrank,iwvi,dais0,msc,mix,o-sylvester,advi,pathfinder,laplace,nuts
# Which of benchmarks/ to run: make studies STUDIES="gradient_floor theorem_4_1"; study and mixtures are what they share.
STUDIES ?= $(filter-out study mixtures,$(basename $(notdir $(wildcard benchmarks/*.py))))

.PHONY: demo test lint bench studies clean

demo: $(VENV)/.installed
	$(BIN)/dais-stan fit $(MODEL).stan --data $(MODEL).data.json --method fullrank --seed 1 --out demo/vi.nc
	$(BIN)/dais-stan sample $(MODEL).stan --data $(MODEL).data.json --seed 1 --out demo/nuts.nc
	$(BIN)/dais-stan compare demo/vi.nc demo/nuts.nc --picture demo/marginals.png
	@echo "Both posteriors are in demo/, their marginals in demo/marginals.png"

test: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/.installed-dev: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	touch $@ $(VENV)/.installed

$(VENV)/.installed-bench: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable ".[bench]"
	touch $@ $(VENV)/.installed

bench: $(VENV)/.installed
	$(BIN)/dais-stan bench posteriordb --posteriors quick --methods $(METHODS) --seeds 2 --workers $(JOBS) \
	  --resume --out bench
	$(BIN)/dais-stan report bench --out bench/report.html

studies: $(VENV)/.installed-bench
	for study in $(STUDIES); do $(BIN)/python benchmarks/$$study.py || exit 1; done

clean:
	rm -rf $(VENV) demo bench build dist
