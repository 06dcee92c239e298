"""What tests of TD3 and DDPG share: runs that take milliseconds."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import count

import pytest

from maze_core.run.context import RunContext

SMALL = {
    "algorithm.initial_buffer_size": 20,
    "algorithm.replay_buffer_size": 500,
    "algorithm.epoch_length": 5,
    "algorithm.n_epochs": 2,
    "algorithm.batch_size": 16,
    "algorithm.critic_hidden": [16, 16],
    "evaluation.n_episodes": 2,
    "callbacks.tensorboard": None,
}


@pytest.fixture
def td3(tmp_path, known_plugins):
    """`td3(env, overrides, algorithm, **parts)`: a silent RunContext of two epochs of five updates, seed 1."""
    numbers = count()
    with ExitStack() as stack:

        def build(env, overrides=None, algorithm="td3", **parts):
            parts = {"run_dir": tmp_path / f"run{next(numbers)}", "seed": 1, "silent": True, "preset": "none", **parts}
            small = SMALL if "model" in parts else {**SMALL, "model.hidden": [16, 16]}
            return stack.enter_context(RunContext(env, algorithm, overrides=small | (overrides or {}), **parts))

        yield build
