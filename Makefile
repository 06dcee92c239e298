# make train   install everything and train PPO on CartPole-v1
# make test    install everything and run the tests but the slow ones
# make setup-ray   also install what runs on Ray: clusters, RLlib
# make setup-loggers   also install the loggers for Weights & Biases and MLflow
# make setup-envpool   also install EnvPool
# make setup-jax       also install JAX and gymnax
# make site    also install what builds the documentation as a site, and build it into build/site
# make help    all targets

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
RAY    := $(wildcard plugins/maze_ray/pyproject.toml plugins/maze_rllib/pyproject.toml)
LOGGERS := $(wildcard plugins/maze_wandb/pyproject.toml plugins/maze_mlflow/pyproject.toml)
PLUGINS := $(filter-out $(RAY) $(LOGGERS),$(sort $(wildcard libraries/*/pyproject.toml plugins/*/pyproject.toml)))
STAMP  := $(VENV)/.installed
RAY_STAMP := $(VENV)/.installed-ray
LOGGERS_STAMP := $(VENV)/.installed-loggers
ENVPOOL_STAMP := $(VENV)/.installed-envpool
JAX_STAMP := $(VENV)/.installed-jax
SITE_STAMP := $(VENV)/.installed-site
DIST_STAMP := $(VENV)/.installed-dist
space  := $(subst ,, )
# With it, every process that a target starts would compile all modules anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup setup-ray setup-loggers setup-envpool setup-jax setup-site setup-dist train test test-slow test-lowest test-newest lint types docs site gallery bench zoo dist check clean

help:
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(STAMP) ## install the core, the libraries and the bundled plugins into .venv

# Runs again only when a distribution's description or the pinned versions change.
$(STAMP): pyproject.toml constraints.txt $(PLUGINS)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt setuptools wheel
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --no-build-isolation \
		--editable ".[box2d,minigrid,mujoco,dev]" $(foreach p,$(PLUGINS),--editable ./$(dir $(p)))
	@touch $(STAMP)

setup-ray: $(RAY_STAMP) ## also install the plugins that run on Ray, and Ray (about 250 MB)

$(RAY_STAMP): $(STAMP) $(RAY)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --no-build-isolation \
		$(foreach p,$(RAY),--editable ./$(dir $(p)))
	@touch $(RAY_STAMP)

setup-loggers: $(LOGGERS_STAMP) ## also install the loggers for Weights & Biases and MLflow (about 150 MB)

$(LOGGERS_STAMP): $(STAMP) $(LOGGERS)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --no-build-isolation \
		--editable ./plugins/maze_wandb --editable "./plugins/maze_mlflow[server]"
	@touch $(LOGGERS_STAMP)

setup-envpool: $(ENVPOOL_STAMP) ## also install EnvPool (740 MB)

$(ENVPOOL_STAMP): $(STAMP) plugins/maze_envpool/pyproject.toml
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --no-build-isolation \
		--editable "./plugins/maze_envpool[envpool]"
	@touch $(ENVPOOL_STAMP)

setup-jax: $(JAX_STAMP) ## also install JAX and gymnax (500 MB)

# gymnax is installed without what it asks for: it forbids the newest gymnasium, which it works with. pgx is left out: it
# installs a package called tests.
$(JAX_STAMP): $(STAMP) plugins/maze_jax/pyproject.toml
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --no-build-isolation \
		--editable "./plugins/maze_jax[jax]" flax seaborn six
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --no-deps gymnax
	@touch $(JAX_STAMP)

setup-site: $(SITE_STAMP) ## also install what builds the documentation as a site (about 110 MB)

$(SITE_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --no-build-isolation --editable ".[site]"
	@touch $(SITE_STAMP)

setup-dist: $(DIST_STAMP) ## also install what checks distributions before they are published

$(DIST_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --no-build-isolation --editable ".[dist]"
	@touch $(DIST_STAMP)

train: setup ## train PPO on CartPole-v1
	$(BIN)/maze train ppo --env CartPole-v1

test: setup ## run the tests but the slow ones
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 3 -m "not slow"

# By files, in the order of tests/conftest.py: tests on Ray clusters in a process that has had no Ray of its own.
test-slow: setup ## run the slow tests: clusters, kills again and again, learning to a score
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 3 -m slow --dist loadfile --no-loadscope-reorder

# For both: PYTHON=python3.12, TORCH=2.9.1, EXTRAS=clusters,loggers.
test-lowest: setup ## try the built distributions with the lowest versions that their bounds allow
	$(BIN)/python tools/versions.py lowest --python $(PYTHON) $(if $(TORCH),--torch $(TORCH)) $(if $(EXTRAS),--extras $(EXTRAS))

test-newest: setup ## try the built distributions with the newest versions that their bounds allow
	$(BIN)/python tools/versions.py newest --python $(PYTHON) $(if $(TORCH),--torch $(TORCH)) $(if $(EXTRAS),--extras $(EXTRAS))

# What is not installed is read where it lies.
lint: setup ## check style and the boundaries between core and plugins
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	PYTHONPATH=$(subst $(space),:,$(strip $(dir $(RAY) $(LOGGERS)))) $(BIN)/lint-imports

types: setup ## check types
	$(BIN)/mypy

docs: setup ## regenerate the reference pages from the code
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/structure.py
	$(BIN)/python docs/diagrams.py
	$(BIN)/python docs/charts.py

site: setup-site ## build the documentation as a site into build/site; a warning is an error
	NO_MKDOCS_2_WARNING=1 PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/mkdocs build --strict
	@echo "The site is in build/site: open build/site/index.html"

gallery: setup ## make the pictures of docs/gallery.md anew; it needs Chromium
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python docs/gallery.py

bench: setup ## measure speed against other libraries, and learning
	$(BIN)/python benchmarks/speed.py

zoo: setup ## evaluate the policies of the zoo again: is each return in the interval of its card?
	$(BIN)/python benchmarks/zoo.py

dist: setup-dist ## build all distributions into dist/, check them, and try them in an empty environment
	$(BIN)/python tools/dist.py

check: lint types test test-slow ## everything CI runs

clean: ## remove the environment and caches
	rm -rf $(VENV) build dist .venv-bench .pytest_cache .mypy_cache .ruff_cache .hypothesis
