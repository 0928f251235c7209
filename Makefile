# Everything a newcomer runs. Needs python3 (3.11 or newer) and make; builds its own .venv.

PYTHON ?= python3
BIN := .venv/bin
SENSES := jobs/sample/corpus/english/senses.tsv
SOURCES := $(shell find elmo_model pipeline jobs -type f -not -path '*/__pycache__/*' -not -name '* *')

.PHONY: demo test lint

demo: .venv/demo
	$(BIN)/elmo dump jobs/sample/corpus demo/features
	$(BIN)/elmo inspect demo/features
	$(BIN)/elmo verify demo/features
	$(BIN)/elmo neighbours demo/features bank --show 4
	$(BIN)/elmo neighbours demo/features play --show 4
	cut -f 1 $(SENSES) | sed 's/\(.*\)-[0-9]*$$/&\t\1/' > demo/senses.tsv
	$(BIN)/elmo plot word demo/features bank --labels demo/senses.tsv -o demo/bank.png

test: .venv/test lint
	$(BIN)/pytest --numprocesses 2

lint: .venv/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy tests

# The package is installed as a wheel, not as a link to the checkout: what is tested is what is shipped.
.venv/demo: setup.py constraints.txt $(SOURCES)
	test -d .venv || $(PYTHON) -m venv .venv
	rm -rf build
	$(BIN)/pip install --quiet --constraint constraints.txt '.[beam,plots]'
	$(BIN)/pip install --quiet --no-deps --force-reinstall .
	touch $@

.venv/test: .venv/demo
	$(BIN)/pip install --quiet --constraint constraints.txt '.[all,test]'
	touch $@
