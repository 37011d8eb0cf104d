# Everything needed is `make` and some Python 3.12 or 3.13; name one with PYTHON=/path/to/python3 if it is not found.
#   make run  ARGS="--dataset a9a"      make test  ARGS="-k voronoi"

# Where the packages are installed: make test PYTHON=python3.13 VENV=.venv-3.13 leaves .venv as it is.
VENV ?= .venv
PY := $(VENV)/bin/python
ARGS ?=
export VENV

# Some machines forbid Python to keep what it has compiled: then each of the many processes of a run, and of the tests, would
# compile every module anew. What is kept lies in __pycache__, which git ignores.
unexport PYTHONDONTWRITEBYTECODE

# A run writes many small files and waits until each has reached the disk. Files of tests need not: where there is room in
# a file system in memory they go there, and tests of runs take half the time. PYTEST_DEBUG_TEMPROOT=/tmp undoes it.
ifndef PYTEST_DEBUG_TEMPROOT
export PYTEST_DEBUG_TEMPROOT := $(shell test -w /dev/shm && df -Pk /dev/shm | awk 'NR == 2 && $$4 > 8000000 {print "/dev/shm"}')
endif

QUICK := -m "not system and not slow" --ignore=tests/system --ignore=tests/services

.PHONY: help venv run check test services coverage lowest pythons bench docs api lint ruff types format

help:
	@echo "make venv     build .venv from the pinned versions; PYTHON=python3.13 VENV=.venv-3.13 names others"
	@echo "make run      run the main job on the embedded data set; options in ARGS=\"...\""
	@echo "make check    lint, types and the tests that need neither other processes nor minutes; pytest options in ARGS"
	@echo "make test     run the test suite; pytest options in ARGS=\"...\""
	@echo "make services run the tests against servers of Prefect, Slurm, two hosts and a second user; -k in ARGS picks some"
	@echo "make pythons  run both with Python 3.12 and with 3.13, each in an environment of its own"
	@echo "make lowest   run the tests of make check with the lowest versions that pyproject.toml allows"
	@echo "make coverage run all tests and print which branches no test takes"
	@echo "make bench    list the benchmarks, or run those of ARGS=\"...\"; installs the peers"
	@echo "make docs     write the pages that are made from declarations"
	@echo "make api      write down the public names and signatures, which a test compares"
	@echo "make lint     ruff and mypy"
	@echo "make format   rewrite the files the way ruff wants them"

venv: $(VENV)/.installed

$(VENV)/.installed: requirements.txt pyproject.toml .ci/make-venv
	@.ci/make-venv

run: venv
	@$(PY) -m flows.batch $(ARGS)

check: lint
	@$(PY) -m pytest -n 2 --dist loadfile --no-loadscope-reorder $(QUICK) $(ARGS)

# Three files of tests at a time, on two cores: some wait for processes to start. Their order is that of tests/conftest.py.
test: venv
	@$(PY) -m pytest -n 3 --dist loadfile --no-loadscope-reorder --ignore=tests/services $(ARGS)

# These wait far more than they compute.
services: venv
	@$(PY) -m pytest -n 3 --dist loadfile --no-loadscope-reorder tests/services $(ARGS)

# Numba's loops are compiled, so no line of theirs is counted. Each process writes a file of its own.
coverage: venv
	@rm -f .coverage .coverage.*
	@$(PY) -m coverage run -m pytest -n 3 --dist loadfile --no-loadscope-reorder $(ARGS); status=$$?; \
		$(PY) -m coverage combine --quiet; $(PY) -m coverage report; exit $$status

# One after the other, each with all of both cores.
pythons:
	@$(MAKE) --no-print-directory test $(if $(ARGS),,services) PYTHON=python3.12 VENV=.venv-3.12
	@$(MAKE) --no-print-directory test $(if $(ARGS),,services) PYTHON=python3.13 VENV=.venv-3.13

lowest: .venv-lowest/.lowest
	@.venv-lowest/bin/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder $(QUICK) $(ARGS)

.venv-lowest/.lowest: pyproject.toml requirements.txt .ci/make-lowest
	@.ci/make-lowest

# Pages that are made from the declarations of options, methods and tasks.
docs: venv
	@IKMAP_PACKAGES=off $(PY) -m flows.options.page
	@IKMAP_PACKAGES=off $(PY) -m pipeline.runs.schema > docs/metrics.schema.json

# A change of the public API is a change of this file, which a review sees.
api: venv
	@$(PY) -m tests.support.public_api --write

bench: .venv/.bench
	@$(PY) -m benchmarks $(ARGS)

.venv/.bench: requirements-bench.txt .ci/make-bench $(VENV)/.installed
	@.ci/make-bench

lint: ruff types

ruff: venv
	@$(PY) -m ruff check . && $(PY) -m ruff format --check .

types: venv
	@$(PY) -m mypy

format: venv
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .
