"""What tests of ES share."""

from contextlib import ExitStack
from itertools import count

import pytest

from maze_core.run.context import RunContext

SMALL = {
    "algorithm.n_rollouts_per_update": 6,
    "algorithm.epoch_length": 2,
    "algorithm.n_epochs": 2,
    "evaluation.n_episodes": 2,
    "evaluation.num_envs": 3,
    "callbacks.tensorboard": None,
}


@pytest.fixture
def es(tmp_path, known_plugins):
    """`es(env, overrides, **parts)`: a silent RunContext of ES, two epochs of two updates of three pairs."""
    numbers = count()
    with ExitStack() as stack:

        def build(env="CartPole-v1", overrides=None, **parts):
            parts = {"run_dir": tmp_path / f"run{next(numbers)}", "seed": 1, "silent": True, "preset": "none", **parts}
            small = SMALL if "model" in parts else {**SMALL, "model.hidden": [4]}
            return stack.enter_context(RunContext(env, "es", overrides=small | (overrides or {}), **parts))

        yield build
