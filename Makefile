# Everything a developer runs. `make` alone explains; `make check` is what CI runs.

VENV ?= .venv
PYTHON ?=
BIN = $(VENV)/bin
STAMP = $(VENV)/.knotwise-installed

# rows of the large example
ROWS ?= 1000000

# the tests share the cores, up to eight processes
PYTEST = $(BIN)/python -m pytest -q -n logical --maxprocesses 8 --dist worksteal

# pytest exits with 5 when a selection holds no test
OR_NONE = || [ $$? -eq 5 ]

# claims that take many fits, each a script in benchmarks/bars
BARS = response pruning no_signal truth banana classes hickory surfaces rare one_at_a_time priors certificates standard_errors automatic neighbours beside_knots noisy_columns many_columns weights near_sites many_rows faults region_totals meuse uneven_noise gaps rough sums counts heavy_tails warps averages varying_noise fit_time

.DEFAULT_GOAL := help
.PHONY: help setup test test-slow doctest lint check demo large benchmark bars format clean

help: ## show this list
	@echo "knotwise: make targets"
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  \1|\2/p' Makefile | awk -F'|' '{ printf "%-12s %s\n", $$1, $$2 }'

setup: $(STAMP) ## create .venv and install knotwise, its reproduction of the paper and its developer tools (PYTHON=... chooses the interpreter)

$(STAMP): pyproject.toml reproduction/pyproject.toml
	@if [ ! -x $(BIN)/python ]; then \
	    for candidate in $(PYTHON) python3.11 python3 python3.12 python3.13 python3.14; do \
	        if $$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	            echo "setup: $(VENV) with $$candidate"; \
	            $$candidate -m venv $(VENV) || exit 1; \
	            break; \
	        fi; \
	    done; \
	fi
	@if ! $(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    echo "setup: knotwise needs Python 3.11 or newer, and neither $(VENV) nor python3.11 nor python3 is one." >&2; \
	    echo "setup: install one, remove $(VENV) if it is there, and run: make setup PYTHON=/path/to/python3" >&2; \
	    exit 1; \
	fi
	@echo "setup: installing knotwise and its developer tools into $(VENV)"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -e '.[dev]' -e ./reproduction
	@touch $@

test: setup ## run the tests, without the slow ones
	@echo "test"
	@$(PYTEST) -m "not slow"

test-slow: setup ## run the slow tests
	@echo "test-slow"
	@$(PYTEST) -m slow $(OR_NONE)

doctest: setup ## run the examples in the docstrings
	@echo "doctest"
	@$(BIN)/python -m pytest -q --doctest-modules src reproduction/src $(OR_NONE)

lint: setup ## ruff, mypy and the layers
	@echo "lint: ruff check"
	@$(BIN)/ruff check .
	@echo "lint: ruff format"
	@$(BIN)/ruff format --check .
	@echo "lint: mypy"
	@$(BIN)/mypy
	@echo "lint: layers"
	@$(BIN)/lint-imports --no-logo

check: lint test doctest test-slow ## everything: lint, types, layers, tests, doctests, slow tests
	@echo "check: all passed"

demo: setup ## reproduce the paper in its quick form: tables, figures, report.html
	@$(BIN)/knotwise demo

large: setup ## fit and predict ROWS simulated rows in Parquet files on a local cluster of two workers (ROWS=1000000)
	@$(BIN)/python benchmarks/large.py --rows $(ROWS)

benchmark: setup ## time the engine
	@$(BIN)/python benchmarks/ladder.py

bars: setup ## measure the claims of benchmarks/bars anew and append to their stored rows (long; on an idle machine)
	@for bar in $(BARS); do $(BIN)/python benchmarks/bars/$$bar.py || exit 1; done

format: setup ## format the code and fix what ruff can fix
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format .

clean: ## remove caches and build products (keeps .venv)
	@echo "clean"
	@rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache src/*.egg-info reproduction/dist
	@find src reproduction tests benchmarks docs -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
