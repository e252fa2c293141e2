# Every target makes the environment that it needs, below .venv/; PYTHON= chooses the interpreter (3.10 or newer).
PYTHON ?= python3
DEMO := .venv/demo
TEST := .venv/test
# What runs the tests: `make test RUN="coverage run -m"` measures them.
RUN ?= python -m
PYTEST_ARGS ?= -n 2

.DEFAULT_GOAL := help
.PHONY: help demo test lint format bench clean

help:
	@echo "make demo     migrate a copy of fixtures/, show the diffs and the summary"
	@echo "make test     run the tests"
	@echo "make lint     ruff and mypy"
	@echo "make format   ruff's formatter and its safe fixes"
	@echo "make bench    measure speed and memory"
	@echo "make clean    remove the environments"

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

$(TEST)/.installed: pyproject.toml .ci/constraints.txt
	$(environment)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check -c .ci/constraints.txt -e '.[dev]'
	@touch $@

demo: $(DEMO)/.installed
	@sh .ci/demo $(CURDIR)/$(DEMO)/bin/amp-migrate

test: $(TEST)/.installed
	OMP_NUM_THREADS=1 $(TEST)/bin/$(RUN) pytest $(PYTEST_ARGS)

lint: $(TEST)/.installed
	$(TEST)/bin/ruff check .
	$(TEST)/bin/ruff format --check .
	$(TEST)/bin/mypy

format: $(TEST)/.installed
	$(TEST)/bin/ruff check --fix .
	$(TEST)/bin/ruff format .

bench: $(TEST)/.installed
	$(TEST)/bin/python -m tests.bench.bench_migrate

clean:
	rm -rf .venv
