# Two commands do everything on a fresh machine: `make run` shows dibs at work, `make test` proves it.
# Each sets up its own environment in .venv first: `make run` what dibs itself needs, the others all that it is developed with.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNS := $(VENV)/.runs
STAMP := $(VENV)/.ready
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# Two a core: most of a test is waiting, for a disk, a server or a clock.
MINUTES ?= 5
SEEDS ?= 1000
FIRST ?= 1
N ?= 5
LOAD ?= 8
WORKERS ?= $(shell expr 2 \* $$(nproc))
# Tests start thousands of programs, and pytest rewrites every assertion: both want to find the work of last time compiled.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: model run test test-repeat lint format docs pictures man release pin bench eval torture simulate clean

run: $(RUNS)  ## a small fleet at work on the embedded store, with the board open; Ctrl-C ends it
	@$(BIN)/dibs demo

test: lint  ## every check and every test
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup

test-repeat: $(STAMP)  ## the tests N times beside LOAD busy processes, and which are not stable (N=5 LOAD=8 ONLY="tests/fleet")
	$(BIN)/python tools/repeat.py --times $(N) --load $(LOAD) -- $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup $(ONLY)

lint: $(STAMP)  ## style, types, layers, and nothing that is unused or stands twice
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/vulture
	$(BIN)/python tools/twice.py
	$(BIN)/python tools/one_way_in.py
	$(BIN)/python tools/quoted_hints.py
	$(BIN)/python tools/prose.py
	$(BIN)/python tools/spelling.py

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(STAMP)  ## the pages as a site, in build/site; a broken link or anchor fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

pictures: $(STAMP)  ## the board's pictures in docs/pictures, taken anew (needs Chromium); look at them before you commit them
	PYTHONPATH=tools $(BIN)/python tools/pictures.py

man: $(STAMP)  ## manual pages, in build/man
	$(BIN)/python tools/manpages.py build/man

release: $(STAMP)  ## is this commit fit to be released? Builds the wheel, the sdist and the bill of materials, publishes nothing
	$(BIN)/python tools/release.py

bench: $(STAMP)  ## figures as ratios, measured side by side (ONLY="sqlite" or "postgres.scale", BENCH=--quick)
	$(BIN)/python -m bench $(BENCH) $(ONLY)

eval: $(STAMP)  ## how right the chat's analyst is, on the labelled set in eval/
	$(BIN)/python -m eval

model: $(STAMP)  ## the formal models, in full: every state looked at, every rule taken away once
	$(BIN)/python tools/model.py

torture: $(STAMP)  ## the long way round: the lab on every store, full-size drains, more random examples
	PYTHONPATH=tests:tools $(BIN)/python -m lab.figures --minutes $(MINUTES)
	DIBS_TORTURE=1 DIBS_EXAMPLES=2000 $(BIN)/python -m pytest tests/torture tests/lab tests/fleet tests/interleave tests/sync tests/protocols/kurultai tests/fuzz tests/core \
		--timeout 3600
	DIBS_TORTURE=1 DIBS_EXAMPLES=2000 $(BIN)/python -m pytest tests/conformance -k differential --timeout 3600
	$(BIN)/python tools/mutate.py

simulate: $(STAMP)  ## the real desk and SQLite store under a scheduler, a clock and faults that a seed decides (SEEDS=1000, FIRST=1)
	$(BIN)/python -m dibs.lab.simulator --seeds $(SEEDS) --first $(FIRST)

clean:
	rm -rf $(VENV) .bench build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(RUNS): pyproject.toml requirements-run.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "dibs needs Python 3.11 or newer, and $(PYTHON) is %d.%d: make PYTHON=python3.13 …" % sys.version_info[:2])'
	@echo "an environment in $(VENV): dibs and its board (once, some 8 MB to fetch)"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) --require-hashes --requirement requirements-run.txt
	@$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

$(STAMP): $(RUNS) requirements.txt
	@echo "into $(VENV): all that dibs is checked and tested with (once, some 150 MB to fetch)"
	@$(PIP) --require-hashes --requirement requirements.txt
	@touch $@

PIN := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header

pin:  ## pin both environments anew, after changing dependencies
	$(PIN) --extra dev pyproject.toml --output-file requirements.txt
	printf 'hatchling\neditables\n' | $(PIN) --extra serve --constraint requirements.txt pyproject.toml - --output-file requirements-run.txt
