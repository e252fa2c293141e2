# Every target makes the environment that it needs, below .venv/; PYTHON= chooses the interpreter (3.10 or newer).
PYTHON ?= python3
DEMO := .venv/demo
TEST := .venv/test
# What runs the tests: `make test RUN="coverage run -m"` measures them.
RUN ?= python -m
PYTEST_ARGS ?= -n 2 -m "not slow"
CONSTRAINTS ?= .ci/constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo demo-all test test-fresh lint format package bench gpu gpu-wheels clean

help:
	@echo "make demo        what it does, on small programs: one screen"
	@echo "make demo-all    migrate a copy of all programs in fixtures/, show diffs and summary"
	@echo "make test        run the quick tests (PYTEST_ARGS=\"-n 2\": all of them)"
	@echo "make test-fresh  demo and test in a new clone with an empty environment (several GB)"
	@echo "make lint        ruff, mypy and the layers of the house"
	@echo "make format      ruff's formatter and its safe fixes"
	@echo "make package     build sdist and wheel, check them, install them everywhere"
	@echo "make bench       measure speed and memory"
	@echo "make gpu         all that needs a GPU, in ten minutes (PYTHON= one with torch)"
	@echo "make gpu-wheels  fill wheelhouse/ with what make gpu needs beside Python and torch"
	@echo "make clean       remove the environments"

define environment
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
		{ echo "Python 3.10 or newer is needed; name one: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
	@rm -rf $(@D)
	$(PYTHON) -m venv $(@D)
endef

$(DEMO)/.installed: pyproject.toml
	$(environment)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(TEST)/.installed: pyproject.toml $(CONSTRAINTS)
	$(environment)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check -c $(CONSTRAINTS) -e '.[dev]'
	@touch $@

demo: $(DEMO)/.installed
	@sh .ci/demo $(CURDIR)/$(DEMO)/bin/amp-migrate

demo-all: $(DEMO)/.installed
	@sh .ci/demo-all $(CURDIR)/$(DEMO)/bin/amp-migrate

test-fresh:
	@bash .ci/fresh

package: $(TEST)/.installed
	$(TEST)/bin/python -m pip install --quiet --disable-pip-version-check build twine
	bash .ci/package $(CURDIR)/$(TEST)/bin/python

test: $(TEST)/.installed
	OMP_NUM_THREADS=1 $(TEST)/bin/$(RUN) pytest $(PYTEST_ARGS)

lint: $(TEST)/.installed
	$(TEST)/bin/ruff check .
	$(TEST)/bin/ruff format --check .
	$(TEST)/bin/mypy
	$(TEST)/bin/lint-imports

format: $(TEST)/.installed
	$(TEST)/bin/ruff check --fix .
	$(TEST)/bin/ruff format .

bench: $(TEST)/.installed
	$(TEST)/bin/python -m tests.bench.bench_migrate

# Not in an environment of its own: torch is that of the machine with the GPU.
gpu:
	@sh .ci/gpu $(PYTHON)

gpu-wheels:
	@sh .ci/gpu-wheels $(PYTHON)

clean:
	rm -rf .venv
