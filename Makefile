# Two commands do everything: `make run` and `make test`. `make` alone lists the rest.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.ready
SOAK_FOR ?= 6h
# What measurements compare glidepath with lives apart from it.
BENCH  := .venv-bench
TARDIS := .venv-tardis

.DEFAULT_GOAL := help
.PHONY: help run test lint types unit real bed bench tardis lock docs soak mutants clean

help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(STAMP): requirements/dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "glidepath needs Python 3.11 or later; set PYTHON=python3.x"; exit 1; }
	@echo "setting up $(VENV) (once; about a minute)"
	@$(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.lock
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

run: $(STAMP) ## start glidepath on this machine with a few sample jobs, live; Ctrl-C ends it
	@$(BIN)/glidepath up --home .run --sample

test: $(STAMP) ## lint, types and every test that this machine can host
	@$(BIN)/python -m tests.suite

lint: $(STAMP) ## style only
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: $(STAMP) ## types only
	@$(BIN)/mypy

unit: $(STAMP) ## the tests that start no servers
	@$(BIN)/pytest -m "not real"

real: $(STAMP) ## only the tests that start real servers
	@$(BIN)/pytest -m real

bed: ## build what the real servers of the tests need, once, with progress
	@$(PYTHON) bed/ctl prepare

soak: $(STAMP) ## long randomised runs; then memory under bad input for SOAK_FOR
	@$(BIN)/python -m tests.soak
	@$(BIN)/python -m bench.job_soak --for $(SOAK_FOR)

mutants: $(STAMP) ## plant mistakes into the core; every one must be noticed by a test
	@$(BIN)/python -m tests.mutants

$(BENCH)/.ready: requirements/bench.lock
	@echo "setting up $(BENCH) (once; less than a minute)"
	@$(PYTHON) -m venv --clear $(BENCH)
	@$(BENCH)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/bench.lock
	@touch $@

bench: $(STAMP) $(BENCH)/.ready ## every measurement of bench/README.md
	@$(BIN)/python -m bench

$(TARDIS)/.ready: requirements/tardis.lock
	@echo "setting up $(TARDIS) (once; less than a minute)"
	@$(PYTHON) -m venv --clear $(TARDIS)
	@$(TARDIS)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/tardis.lock
	@touch $@

tardis: $(STAMP) $(TARDIS)/.ready ## the measurement beside COBalD/TARDIS, in real time: two hours
	@$(BIN)/python -m bench.tardis

docs: $(STAMP) ## regenerate docs/reference
	@$(BIN)/glidepath config reference > docs/reference/configuration.md
	@$(BIN)/python -m glidepath.cli.reference > docs/reference/commands.md

lock: ## renew the locks of requirements/ (names, versions and hashes; no addresses)
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	  --extra postgresql --extra plots --extra htcondor --extra kubernetes --extra web --extra schedule --extra fast pyproject.toml requirements/dev.in -o requirements/dev.lock
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	  requirements/bench.in -o requirements/bench.lock
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	  requirements/tardis.in -o requirements/tardis.lock

clean: ## remove what `make` made
	rm -rf $(VENV) $(BENCH) $(TARDIS) .run .numba .hypothesis .mypy_cache .ruff_cache .pytest_cache bench/out
