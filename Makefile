PYTHON ?= python3
DEMO_ARGS ?=
TEST_ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/pip install --quiet -c constraints.txt

# The stamps say what is installed; a change of either file installs again.
CORE := $(VENV)/.core
ALL := $(VENV)/.all
OLDEST := .venv-oldest

# The networks of the tests are small: a second thread hardly helps, and waits in vain where the machine is busy.
ONE_THREAD := OMP_NUM_THREADS=1

# Two processes share the tests, a file at a time.
TWO_AT_ONCE := -n 2 --dist loadfile

# With the oldest dependencies: what reads, writes and computes with them, without the slow trainings.
OLDEST_TESTS := tests/data tests/io tests/networks tests/noise tests/methods/test_masking.py

.DEFAULT_GOAL := help
.PHONY: help demo env test test-long test-oldest lint format types layers docs notebooks bench results screenshots clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-15s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "benchmarks:    $(BENCHMARKS)"

demo: $(CORE) ## install the light core and denoise three example images (DEMO_ARGS="--minutes 0.1" for a short one)
	$(BIN)/noise2same demo $(DEMO_ARGS)

env: $(ALL) ## install the package with every extra into .venv

test: env ## run the tests and the examples in docstrings (TEST_ARGS="-k metrics" for a part)
	$(ONE_THREAD) $(BIN)/python -m pytest $(TWO_AT_ONCE) $(TEST_ARGS)

test-long: env test-oldest ## run all tests, with the long and hostile cases and with the oldest dependencies
	$(ONE_THREAD) $(BIN)/python -m pytest -m "long or not long" $(TWO_AT_ONCE) $(TEST_ARGS)

test-oldest: $(OLDEST)/.installed ## run the fast tests with the oldest dependencies that pyproject.toml allows
	$(OLDEST)/bin/python -m pytest -W ignore $(OLDEST_TESTS) $(TEST_ARGS) # old packages warn of each other

lint: env ## check style, formatting, spelling and the sentences of Markdown
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell
	$(BIN)/python tools/check_markdown.py

format: env ## mend style and formatting, and wrap Markdown at its sentences
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/python tools/check_markdown.py --fix

types: env ## check the types
	$(BIN)/mypy

layers: env ## check that modules import only from the rooms below them
	$(BIN)/lint-imports --no-cache

docs: env ## build the documentation into site/
	$(BIN)/mkdocs build --strict --quiet

# every script that can be run but the peer's, which runs in an environment of its own
BENCHMARKS := $(filter-out careamics_worker,$(basename $(notdir $(shell grep -l __main__ benchmarks/*.py))))

bench: $(BENCHMARKS:%=bench-%) ## run every benchmark, for hours (bench-NAME for one of them)

bench-%: env
	cd benchmarks && ../$(BIN)/python $*.py $(BENCH_ARGS)

results: env ## render the pages of docs/results from the figures there, and pack those into one file
	$(BIN)/python -c "from pathlib import Path; from noise2same.paper.reproduce import pack; pack(Path('docs/results/cpu'))"
	$(BIN)/noise2same reproduce all --out docs/results

notebooks: env ## run the notebooks of docs/notebooks, and keep what they show
	$(BIN)/python tools/run_notebooks.py

screenshots: env ## take the pictures of Studio, with its tests, and of napari for the docs
	NOISE2SAME_SCREENSHOTS=docs $(ONE_THREAD) $(BIN)/python -m pytest tests/studio
	xvfb-run -a -s "-screen 0 1600x1000x24" $(BIN)/python tools/napari_screenshot.py

clean: ## remove what was built, but not .venv
	rm -rf build dist site demo .mypy_cache .pytest_cache .ruff_cache $(OLDEST)
	find . -path ./$(VENV) -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/pip:
	$(PYTHON) -m venv $(VENV)

$(CORE): pyproject.toml constraints.txt | $(BIN)/pip
	$(INSTALL) -e .
	touch $@

$(ALL): pyproject.toml constraints.txt | $(BIN)/pip
	$(INSTALL) -e '.[all]'
	touch $(CORE) $@

$(OLDEST)/.installed: pyproject.toml constraints-oldest.txt
	$(PYTHON) -m venv --clear $(OLDEST)
	$(OLDEST)/bin/pip install --quiet -c constraints-oldest.txt -e . pytest
	touch $@
