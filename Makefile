# Needs python3 (3.11 or newer), python3-venv and make; everything else is set up here.
#
#   make demo     compile the example and show what was decided
#   make test     run the tests
#   make lint     ruff and mypy
#   make schemas  regenerate schemas/ from the models
#   make bench    ratios of lint and build to other programs, and peak memory (bench/README.md)
#   make lab      measure the scheduler in a real kernel, in QEMU, on Debian 12 on x86-64; minutes
#   make golden   regenerate tests/golden and reports of tests/errors; review the diff
#   make clean    remove what these made
#
# PYTHON is the interpreter of the virtual environment, TESTS and PYTEST_ARGS narrow `make test`:
#   make test TESTS=tests/test_tree.py PYTEST_ARGS='-k partial'
# LAB_ARGS: `python -m tests.lab --help` has them, as in make lab LAB_ARGS='--all --every-kernel'

PYTHON ?= python3
TESTS ?= tests
PYTEST_ARGS ?=
BENCH_ARGS ?=
LAB_ARGS ?=

VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check --quiet

DEMO := examples/dgx-spark
DEMO_OUT := out/dgx-spark
DEMO_EXPLAIN := spark-a --comm VLLM::EngineCor --project $(DEMO)

.PHONY: help demo test lint schemas bench lab golden clean tools not-in-ci FORCE
.DELETE_ON_ERROR:

help:
	@sed -n '3,10s/^# *//p' Makefile

demo: $(VENV)/.installed
	$(VENV)/bin/tierc build $(DEMO) -o $(DEMO_OUT)
	@echo; find $(DEMO_OUT) -type f | LC_ALL=C sort; echo
	$(VENV)/bin/tierc explain $(DEMO_EXPLAIN)

test: tools $(VENV)/.installed-dev
	$(PY) -m pytest -n auto $(PYTEST_ARGS) $(TESTS)

lint: $(VENV)/.installed-dev
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

schemas: $(VENV)/.installed-dev
	$(PY) -m compiler schemas schemas

bench: $(VENV)/.installed-bench
	$(PY) -m bench.tool $(BENCH_ARGS)

lab: tools $(VENV)/.installed-dev
	$(PY) -m tests.lab $(LAB_ARGS)

golden: not-in-ci $(VENV)/.installed-dev
	$(PY) -m pytest -q -m uses_golden --update-golden $(TESTS)
	git status --short tests/golden tests/errors

not-in-ci:
	@if [ -n "$$CI" ]; then echo 'make golden: refused when CI is set' >&2; exit 1; fi

tools:
	@.ci/tools

clean:
	rm -rf $(VENV) out build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Looked at every time and touched only when made anew, so that nothing is installed twice.  An
# environment that was moved here does not do: the scripts in it hold absolute paths.
$(VENV)/.made: FORCE
	@if [ "$$(cat $@ 2>/dev/null)" != "$(CURDIR)" ] || ! $(PY) -c '' 2>/dev/null; then \
		$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
			{ echo 'tierc needs Python 3.11 or newer; set PYTHON=...' >&2; exit 1; }; \
		rm -rf $(VENV); \
		$(PYTHON) -m venv $(VENV) || \
			{ echo 'no virtual environment: is python3-venv installed?' >&2; exit 1; }; \
		echo '$(CURDIR)' >$@; \
	fi

FORCE:

$(VENV)/.installed: $(VENV)/.made pyproject.toml
	$(PIP) install -e .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.made pyproject.toml
	$(PIP) install -e '.[dev]'
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-bench: $(VENV)/.made pyproject.toml
	$(PIP) install -e '.[bench]'
	@touch $@ $(VENV)/.installed
