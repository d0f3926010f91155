# What can I ask for?  demo, quick, test, test-all, test-gpu, replay, durations, docs, bench, lint, types, examples, clean.
# Needs Python 3.11 or newer.
PYTHON ?= python3
VENV   ?= .venv
JOBS   ?= 2
BIN    := $(VENV)/bin

.PHONY: demo quick test test-all test-gpu durations docs bench lint types examples clean

demo: $(VENV)/.core
	$(BIN)/tp demo

# Three tiers by measured time (test/tiers.py); each prints what it left out.
quick: $(VENV)/.test
	$(BIN)/python -m pytest -n $(JOBS) -q --tier quick

test: $(VENV)/.test
	$(BIN)/python -m pytest -n $(JOBS) --tier test

test-all: $(VENV)/.all
	$(BIN)/python -m pytest -n $(JOBS) --tier all

durations: $(VENV)/.all   # writes test/durations.json from a run of everything
	$(BIN)/python -m pytest -n $(JOBS) --tier all --record-durations

test-gpu: $(VENV)/.test   # for a machine with an NVIDIA GPU; elsewhere every test says why it was left out
	$(BIN)/python -m pytest test/gpu -rs

# Has a bit, a word or a message moved?  Compared with the pins in test/replay/ (docs/testing.md).
.PHONY: replay replay-update
replay: $(VENV)/.test
	$(BIN)/python tools/replay.py --jobs $(JOBS)

replay-update: $(VENV)/.test   # make replay-update REASON="what changed, and why it may"
	$(BIN)/python tools/replay.py update --jobs $(JOBS) --reason "$(REASON)"

docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "the pages are in site/index.html"

bench: $(VENV)/.core
	$(BIN)/python bench/run.py

# A machine with a GPU and no network: gpu-bundle where LLVM is, then bench-gpu there (it needs neither make's packages nor LLVM).
.PHONY: gpu-bundle bench-gpu
gpu-bundle: $(VENV)/.core
	$(BIN)/python tools/gpu_bundle.py build/gpu
	$(BIN)/python bench/gpu_ours.py --fill build/gpu/cache

bench-gpu:
	PYTHON=$(PYTHON) bench/gpu_all.sh build/gpu

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .

types: $(VENV)/.test
	$(BIN)/mypy

examples: $(VENV)/.core
	@for f in examples/*.py; do \
	echo "== $$f"; $(BIN)/python "$$f" || exit 1; done

clean:
	rm -rf $(VENV) site build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp per set of packages. They depend on what the packages are read from (the version is in
# version.py), so a second `make` installs nothing.
INSTALL  = $(BIN)/python -m pip install --quiet --disable-pip-version-check
PACKAGES = pyproject.toml src/tinyphysics/version.py

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "tinyphysics needs Python 3.11 or newer; \
	this is " + sys.version.split()[0] + ". Try: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.core: $(PACKAGES) | $(VENV)/.made
	$(INSTALL) --editable .
	@touch $@

$(VENV)/.test: $(PACKAGES) | $(VENV)/.made
	$(INSTALL) --editable ".[test]"
	@touch $@ $(VENV)/.core

$(VENV)/.all: $(PACKAGES) | $(VENV)/.made
	$(INSTALL) --editable ".[test,peers]"
	@touch $@ $(VENV)/.test $(VENV)/.core

$(VENV)/.docs: $(PACKAGES) | $(VENV)/.made
	$(INSTALL) --editable ".[docs]"
	@touch $@ $(VENV)/.core
