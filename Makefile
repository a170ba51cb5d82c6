# What people and CI run. `make demo` and `make test` do all the set-up themselves.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest

.PHONY: help setup demo check test test-fast test-long test-versions bench clean

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

setup: $(VENV)/.installed ## virtual environment, and what the host tests need (docker, sshd)
	PYTHON=$(BIN)/python scripts/setup-host

demo: setup ## a rehearsal host on this machine, and the whole story on it
	$(BIN)/klops demo

check: $(VENV)/.installed ## ruff, mypy, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test-fast: $(VENV)/.installed ## unit and case tests: seconds, no host
	$(PYTEST) tests/unit tests/cases

test: setup check ## everything that must be green before a landing
	$(PYTEST) -m 'not long'

test-long: setup ## what CI can't hold: every Python version, the long tests
	$(MAKE) test-versions
	$(PYTEST) -m long; status=$$?; [ $$status -eq 5 ] || exit $$status

test-versions: $(VENV)/.installed ## unit and case tests on each CPython that is here, the agent's on 3.8 and 3.9 too
	scripts/test-versions

bench: setup ## printed figures, never a timed assertion
	$(BIN)/python -m tests.bench

clean: ## what the targets above made in this folder
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .import_linter_cache dist build
