# make demo   fit eight schools, sample it with NUTS, compare, draw: everything from nothing, into demo/
# make test   the tests; make lint: style and types; make bench: the quick version of each benchmark
# PYTHON=python3.12 chooses the Python that .venv is made with.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Processes for the tests; compiling Stan programs is most of their time.
JOBS ?= 2
MODEL := stan_models/eight_schools_noncentered
# Which of benchmarks/ to run: make bench BENCH="gradient_floor theorem_4_1"; study and mixtures are what they share.
BENCH ?= $(filter-out study mixtures,$(basename $(notdir $(wildcard benchmarks/*.py))))

.PHONY: demo test lint bench clean

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

$(VENV)/.installed-bench: $(VENV)/.installed-dev
	$(BIN)/python -m pip install --quiet --editable ".[bench]"
	touch $@

bench: $(VENV)/.installed-bench
	for study in $(BENCH); do $(BIN)/python benchmarks/$$study.py || exit 1; done

clean:
	rm -rf $(VENV) demo build dist
