"""What tests of deep Q-learning share: runs that take milliseconds."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import count

import pytest

from maze_core.run.context import RunContext

SMALL = {
    "dqn": {
        "algorithm.initial_buffer_size": 20,
        "algorithm.replay_buffer_size": 500,
        "algorithm.target_update_interval": 3,
    },
    "apex": {
        "algorithm.num_actors": 2,
        "algorithm.n_rollout_steps": 4,
        "algorithm.num_batches_per_iter": 1,
        "algorithm.initial_buffer_size": 20,
        "algorithm.replay_buffer_size": 500,
        "algorithm.target_update_interval": 3,
    },
    "pqn": {"algorithm.n_rollout_steps": 8, "algorithm.num_envs": 3},
}
TINY = {
    "algorithm.epoch_length": 5,
    "algorithm.n_epochs": 2,
    "algorithm.batch_size": 16,
    "algorithm.epsilon.end": 60,
    "evaluation.n_episodes": 2,
    "callbacks.tensorboard": None,
}


@pytest.fixture
def learn(tmp_path, known_plugins):
    """`learn(env, algorithm, overrides, **parts)`: a silent RunContext of two epochs of five updates, seed 1."""
    numbers = count()
    with ExitStack() as stack:

        def build(env, algorithm="dqn", overrides=None, **parts):
            parts = {"run_dir": tmp_path / f"run{next(numbers)}", "seed": 1, "silent": True, "preset": "none", **parts}
            narrow = {} if "model" in parts else {"model.hidden": [16, 16]}
            values = narrow | TINY | SMALL[algorithm] | (overrides or {})
            return stack.enter_context(RunContext(env, algorithm, overrides=values, **parts))

        yield build
