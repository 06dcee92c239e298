# make train   install everything and train PPO on CartPole-v1
# make test    install everything and run the tests
# make help    all targets

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PLUGINS := $(sort $(wildcard plugins/*/pyproject.toml))
STAMP  := $(VENV)/.installed

.PHONY: help setup train test lint types docs bench check clean

help:
	@grep -E '^[a-z]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(STAMP) ## install the core and the bundled plugins into .venv

# Runs again only when a distribution's description or the pinned versions change.
$(STAMP): pyproject.toml constraints.txt $(PLUGINS)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt setuptools wheel
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --no-build-isolation \
		--editable ".[box2d,mujoco,video,dev]" $(foreach p,$(PLUGINS),--editable ./$(dir $(p)))
	@touch $(STAMP)

train: setup ## train PPO on CartPole-v1
	$(BIN)/maze train ppo --env CartPole-v1

test: setup ## run the tests
	$(BIN)/python -m pytest --numprocesses 2

lint: setup ## check style and the boundaries between core and plugins
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: setup ## check types
	$(BIN)/mypy

docs: setup ## regenerate the reference pages from the code
	$(BIN)/python docs/generate.py

bench: setup ## measure speed against other libraries, and learning
	$(BIN)/python benchmarks/speed.py

check: lint types test ## everything CI runs

clean: ## remove the environment and caches
	rm -rf $(VENV) .venv-bench .pytest_cache .mypy_cache .ruff_cache .hypothesis
