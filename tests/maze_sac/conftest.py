"""What tests of SAC share: runs that take milliseconds, and environments whose actions check themselves."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import count

import numpy as np
import pytest
from gymnasium import spaces
from maze_recordings.writer import TrajectoryWriter

from maze_core.data.rollout import Trajectory
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
def sac(tmp_path, known_plugins):
    """`sac(env, overrides, **parts)`: a silent RunContext of two epochs of five updates, seed 1."""
    numbers = count()
    with ExitStack() as stack:

        def build(env, overrides=None, algorithm="sac", **parts):
            parts = {"run_dir": tmp_path / f"run{next(numbers)}", "seed": 1, "silent": True, "preset": "none", **parts}
            small = SMALL if "model" in parts else {**SMALL, "model.hidden": [16, 16]}
            return stack.enter_context(RunContext(env, algorithm, overrides=small | (overrides or {}), **parts))

        yield build


@pytest.fixture
def record(tmp_path):
    """`record(env, episodes)`: a recording of random actions in an environment; returns its folder."""

    def build(env, episodes):
        folder = tmp_path / "demos"
        env.action_space.seed(0)
        assert isinstance(env.observation_space, spaces.Box)
        with TrajectoryWriter(folder, env.observation_space, env.action_space) as writer:
            for episode in range(episodes):
                observations, actions, rewards, ended = [env.reset(seed=episode)[0].copy()], [], [], (False, False)
                while not any(ended):
                    actions.append(env.action_space.sample())
                    observation, reward, *ended, _ = env.step(actions[-1])
                    observations.append(observation.copy())
                    rewards.append(reward)
                obs = {"observation": np.array(observations, np.float32)}
                dtype = np.int64 if isinstance(env.action_space, spaces.Discrete) else np.float32
                columns = {"action": np.array(actions, dtype)}
                rewards = np.array(rewards, np.float32)
                writer.add(Trajectory(obs, columns, rewards, *map(bool, ended), float(rewards.sum()), episode))
        return folder

    return build
