# Everything a newcomer runs. Needs python3 (3.11 or newer) and make; builds its own .venv.

PYTHON ?= python3
BIN := .venv/bin
SOURCES := $(shell find elmo_model pipeline jobs -type f -not -path '*/__pycache__/*')

.PHONY: demo test lint

demo: .venv/installed
	PATH="$(CURDIR)/$(BIN):$$PATH" sh jobs/demo.sh demo

test: .venv/installed lint
	$(BIN)/pytest

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy tests

# The dependencies first and apart, so that a change of the sources alone installs in seconds. The package is installed
# as a wheel, not as a link to the checkout: what is tested is what is shipped.
.venv/dependencies: setup.py constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt '.[all,test]'
	touch $@

.venv/installed: .venv/dependencies $(SOURCES) pyproject.toml
	$(BIN)/pip install --quiet --no-deps --force-reinstall .
	touch $@
