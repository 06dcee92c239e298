"""What tests of offline learning share: recordings, and runs that take milliseconds."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import count

import pytest

from maze_core.run.context import RunContext
from tests.recorded import record as record

SMALL = {
    "algorithm.epoch_length": 5,
    "algorithm.n_epochs": 2,
    "algorithm.batch_size": 16,
    "algorithm.critic_hidden": [16, 16],
    "model.hidden": [16, 16],
    "evaluation.n_episodes": 2,
    "callbacks.tensorboard": None,
}


@pytest.fixture
def offline(tmp_path, known_plugins):
    """`offline(algorithm, env, dataset, overrides, **parts)`: a silent RunContext of two epochs of five updates."""
    numbers = count()
    with ExitStack() as stack:

        def build(algorithm, env, dataset, overrides=None, **parts):
            parts = {"run_dir": tmp_path / f"run{next(numbers)}", "seed": 1, "silent": True, "preset": "none", **parts}
            values = SMALL | {"algorithm.dataset": str(dataset)} | (overrides or {})
            return stack.enter_context(RunContext(env, algorithm, overrides=values, **parts))

        yield build
