# What people and CI run. `make demo` and `make test` do all the set-up themselves.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest

# tests and figures are of a klops that is installed: one that compiles itself anew at each start takes twice as long
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup setup-tests demo check test test-fast test-long test-versions bench clean

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev,oracle]'
	touch $@

setup: $(VENV)/.installed ## virtual environment, and what rehearsal hosts need (docker, sshd)
	PYTHON=$(BIN)/python scripts/setup-host

setup-tests: setup ## and what the host tests need besides (sudo, fish, busybox, crontab)
	scripts/setup-host --tests

demo: setup ## a rehearsal host on this machine, and the whole story on it
	$(BIN)/klops demo

check: $(VENV)/.installed ## ruff, mypy, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test-fast: $(VENV)/.installed ## unit and case tests: seconds, no host
	$(PYTEST) -m "not long" tests/unit tests/cases

# three at a time, each file whole, in order: most of a host test is waiting
test: setup-tests check ## everything that must be green before a landing
	$(PYTEST) -n 3 --dist loadfile --no-loadscope-reorder -m 'not long'

test-long: setup-tests ## what CI can't hold: every Python version, the long tests
	scripts/setup-host --tests --long
	$(MAKE) test-versions
	$(PYTEST) -n 2 --dist loadfile --no-loadscope-reorder -m long; status=$$?; [ $$status -eq 5 ] || exit $$status

test-versions: $(VENV)/.installed ## unit and case tests on each CPython that is here, the agent's on 3.8 and 3.9 too
	scripts/test-versions

# the tools that klops is compared with, in an environment of their own: they pin other releases of paramiko.
# Which ansible-core that is stands in pyproject.toml alone
$(VENV)/peers/.installed: $(VENV)/.installed
	$(PYTHON) -m venv $(VENV)/peers
	$(VENV)/peers/bin/python -m pip install --quiet '.[oracle]' 'pyinfra>=3.10,<4'
	touch $@

bench: setup $(VENV)/peers/.installed ## printed figures, never a timed assertion; beside ansible-core, pyinfra and rsync
	scripts/setup-host --bench
	PEERS=$(VENV)/peers/bin/python $(BIN)/python -m tests.bench

clean: ## what the targets above made in this folder
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .import_linter_cache dist build
