"""What tests of cloning share: recordings of any spaces, and runs that take milliseconds."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import count

import numpy as np
import pytest
from maze_recordings.writer import TrajectoryWriter

from maze_core.data.rollout import Trajectory
from maze_core.envs.spaces import allocate, space_specs
from maze_core.run.context import RunContext

SMALL = {
    "algorithm.n_epochs": 2,
    "algorithm.batch_size": 7,
    "algorithm.n_eval_episodes": 2,
    "algorithm.device": "cpu",
    "callbacks.tensorboard": None,
}


@pytest.fixture
def bc(tmp_path, known_plugins):
    """`bc(env, dataset, overrides, **parts)`: a silent RunContext that clones for two epochs, seed 1."""
    numbers = count()
    with ExitStack() as stack:

        def build(env, dataset, overrides=None, **parts):
            parts = {"run_dir": tmp_path / f"run{next(numbers)}", "seed": 1, "silent": True, "preset": "none", **parts}
            values = SMALL | {"algorithm.dataset": str(dataset)} | (overrides or {})
            return stack.enter_context(RunContext(env, "bc", overrides=values, **parts))

        yield build


@pytest.fixture
def record(tmp_path):
    """`record(observation_space, action_space, lengths, act)`: a recording of episodes; returns its folder.

    `act(obs)` answers observations with leaves [L + 1, …] by actions with leaves [L, …]. Float observations are normal
    numbers, others random bits.
    """
    numbers = count()

    def build(observation_space, action_space, lengths, act):
        rng = np.random.default_rng(0)
        folder = tmp_path / f"demos{next(numbers)}"
        with TrajectoryWriter(folder, observation_space, action_space) as writer:
            for length in lengths:
                obs = allocate(space_specs(observation_space, "observation"), (length + 1,))
                for leaf in obs.values():
                    bits = leaf.dtype.kind != "f"
                    leaf[...] = rng.integers(0, 2, leaf.shape) if bits else rng.normal(size=leaf.shape)
                rewards = np.ones(length, np.float32)
                writer.add(Trajectory(obs, act(obs), rewards, True, False, float(length)))
        return folder

    return build
