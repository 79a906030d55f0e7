# Groundspeed: `make run` and `make test` do all set-up. Needs Linux, Python 3.11+, git and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP_ARGS ?=
DATA ?= .groundspeed
REPO ?=
RANGE ?=
ONCE ?=
# More than two cores have: half of a test's time is waiting for processes that it has started.
TEST_PROCESSES ?= 3
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help

help: ## What can be asked of this file
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 20

# A torch that the machine's Python can import is used and not downloaded again.
$(BIN)/python:
	@echo "Creating $(VENV) ..."
	@if $(PYTHON) -c 'import torch' 2>/dev/null; then $(PYTHON) -m venv --system-site-packages $(VENV); else $(PYTHON) -m venv $(VENV); fi

$(VENV)/.torch: $(BIN)/python constraints.txt
	@$(BIN)/python -c 'import torch, sys; v = tuple(map(int, torch.__version__.split("+")[0].split(".")[:2])); sys.exit(v < (2, 6))' 2>/dev/null \
	  || (echo "Installing torch (the largest part; PIP_ARGS=... gives another index) ..." && $(BIN)/python -m pip install -q $(PIP_ARGS) -c constraints.txt torch numpy)
	@touch $@

$(VENV)/.run: $(VENV)/.torch pyproject.toml
	@echo "Installing Groundspeed ..."
	@mkdir -p web/dist
	@$(BIN)/python -m pip install -q $(PIP_ARGS) -c constraints.txt -e '.[service,worker,web-build]'
	@touch $@

$(VENV)/.test: $(VENV)/.run
	@echo "Installing what the tests need ..."
	@$(BIN)/python -m pip install -q $(PIP_ARGS) -c constraints.txt -e '.[service,worker,github,web-build,test]'
	@touch $@

run: $(VENV)/.run web ## Benchmark the example (or REPO=path [RANGE=a..b]) and show it; ONCE=1 ends with the table
	@$(BIN)/groundspeed demo --data $(DATA) $(if $(REPO),--repo $(REPO)) $(if $(RANGE),--range $(RANGE)) $(if $(ONCE),--once)

test: $(VENV)/.test web ## All tests, under 15 minutes on two cores
	@$(BIN)/python -m pytest -q -m "not long" -n $(TEST_PROCESSES) --dist loadfile --no-loadscope-reorder

test-long: $(VENV)/.test web ## The tests that take minutes each: other seeds of the example, packaging, visual baselines; new examples
	@$(BIN)/python -m pytest -q -m long
	@GROUNDSPEED_TEST_RANDOM=1 $(BIN)/python -m pytest -q -m "not long" tests/domain tests/forge/test_escape.py tests/forge/test_report.py

bench: bench-fleet bench-detection bench-scale bench-import ## Every benchmark of ours, beside its peer or floor

bench-fleet: $(VENV)/.test ## Wrong go and no-go over simulated fleets, beside two rules in use
	@$(BIN)/python tests/bench/fleet

.PHONY: help run test test-long bench bench-fleet

lint: $(VENV)/.test ## Style, strict types, and who may import whom
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

web: $(VENV)/.run ## Bundle the page scripts with the Node that comes as a wheel
	@if [ -f web/package.json ]; then $(BIN)/python web/build.py; fi

.PHONY: lint web

bench-scale: $(VENV)/.test ## What the store does under load, beside its floor; PARTS="ingest pages"
	@$(BIN)/python tests/bench/scale $(PARTS)

.PHONY: bench-scale

FUZZ_SECONDS ?= 120
FUZZ_HAND_WRITTEN ?= 600
fuzz: $(VENV)/.test ## Damaged files into every importer: FUZZ_SECONDS each, FUZZ_HAND_WRITTEN for parsers of text
	@$(BIN)/python tests/fuzz/run.py --seconds $(FUZZ_SECONDS) --hand-written $(FUZZ_HAND_WRITTEN)

bench-import: $(VENV)/.test ## The largest real history: results a second and memory, beside asv publish on the same tree
	@$(BIN)/python tests/bench/importing/run.py

.PHONY: fuzz bench-import

bench-detection: $(VENV)/.test ## Change detection beside asv, Otava, ruptures and MongoDB, each in its own environment
	@$(BIN)/python tests/bench/detection/run.py

bench-gate: $(VENV)/.test ## Error rates and power of the gate by simulation; draws docs/img
	@OMP_NUM_THREADS=1 $(BIN)/python tests/bench/detection/calibrate.py

.PHONY: bench-detection bench-gate

bench-web: $(VENV)/.test web ## One new result and the pages beside asv's: COMMITS, BENCHMARKS, MACHINES, SERIES set the size
	@$(BIN)/python tests/bench/web $(if $(COMMITS),--commits $(COMMITS)) $(if $(BENCHMARKS),--benchmarks $(BENCHMARKS)) \
	  $(if $(MACHINES),--machines $(MACHINES)) $(if $(SERIES),--series $(SERIES))

.PHONY: bench-web

bench-github: $(VENV)/.test ## Webhooks at 50 a second while pull requests are measured: answers, first reaction, verdict
	@$(BIN)/python tests/bench/github

.PHONY: bench-github

SEED ?= 1
CHAOS_JOBS ?= 2000
chaos: $(VENV)/.test ## Everything killed at random with CHAOS_JOBS jobs in flight; nothing lost, nothing doubled (SEED=)
	@OMP_NUM_THREADS=1 $(BIN)/python tests/chaos/run.py --seed $(SEED) --jobs $(CHAOS_JOBS)

.PHONY: chaos
