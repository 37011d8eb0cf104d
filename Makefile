# Everything needed is `make` and some Python 3.12 or 3.13; name one with PYTHON=/path/to/python3 if it is not found.
#   make run  ARGS="--dataset a9a"      make test  ARGS="-k voronoi"

PY := .venv/bin/python
ARGS ?=

# Some machines forbid Python to keep what it has compiled: then each of the many processes of a run, and of the tests, would
# compile every module anew. What is kept lies in __pycache__, which git ignores.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help venv run check test bench docs lint ruff types format

help:
	@echo "make venv     build .venv from the pinned versions"
	@echo "make run      run the main job on the embedded data set; options in ARGS=\"...\""
	@echo "make check    lint, types and the tests that need neither other processes nor minutes; pytest options in ARGS"
	@echo "make test     run the whole test suite; pytest options in ARGS=\"...\""
	@echo "make bench    list the benchmarks, or run those of ARGS=\"...\"; installs the peers"
	@echo "make docs     write the pages that are made from declarations"
	@echo "make lint     ruff and mypy"
	@echo "make format   rewrite the files the way ruff wants them"

venv: .venv/.installed

.venv/.installed: requirements.txt pyproject.toml .ci/make-venv
	@.ci/make-venv

run: venv
	@$(PY) -m flows.batch $(ARGS)

check: lint
	@$(PY) -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not system and not slow" --ignore=tests/system $(ARGS)

# Four files of tests at a time, on two cores: many wait for processes to start. Their order is that of tests/conftest.py.
test: venv
	@$(PY) -m pytest -n 4 --dist loadfile --no-loadscope-reorder $(ARGS)

# Pages that are made from the declarations of options, methods and tasks.
docs: venv
	@IKMAP_PACKAGES=off $(PY) -m flows.options.page
	@IKMAP_PACKAGES=off $(PY) -m pipeline.runs.schema > docs/metrics.schema.json

bench: .venv/.bench
	@$(PY) -m benchmarks $(ARGS)

.venv/.bench: requirements-bench.txt .ci/make-bench .venv/.installed
	@.ci/make-bench

lint: ruff types

ruff: venv
	@$(PY) -m ruff check . && $(PY) -m ruff format --check .

types: venv
	@$(PY) -m mypy

format: venv
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .
