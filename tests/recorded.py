"""Recordings of any spaces for tests of algorithms that learn from them."""

from __future__ import annotations

from itertools import count

import numpy as np
import pytest
from gymnasium import spaces
from maze_recordings.writer import TrajectoryWriter

from maze_core.data.rollout import Trajectory
from maze_core.envs.spaces import allocate, space_specs

OBSERVATION = spaces.Box(-1, 1, (3,), np.float32)
BOX = spaces.Box(np.array([-2, 0], np.float32), np.array([2, 10], np.float32))
LENGTHS = [5, 1, 9, 4, 6, 3, 8]


@pytest.fixture
def record(tmp_path):
    """`record(observation_space, action_space, lengths, act, reward)`: a recording of episodes; returns its folder.

    `act(obs, rng)` answers observations with leaves [L + 1, …] by actions with leaves [L, …], by default random ones,
    and `reward(obs, actions)` both by rewards [L]. Of three episodes one terminates, one is truncated, one interrupted.
    """
    numbers = count()

    def build(observation_space, action_space, lengths=LENGTHS, act=None, reward=None):
        rng = np.random.default_rng(0)
        folder = tmp_path / f"demos{next(numbers)}"
        with TrajectoryWriter(folder, observation_space, action_space) as writer:
            for number, length in enumerate(lengths):
                obs = allocate(space_specs(observation_space, "observation"), (length + 1,))
                for leaf in obs.values():
                    bits = leaf.dtype.kind != "f"
                    leaf[...] = rng.integers(0, 2, leaf.shape) if bits else rng.normal(size=leaf.shape)
                actions = act(obs, rng) if act else random_actions(action_space, length, rng)
                rewards = reward(obs, actions) if reward else rng.normal(size=length)
                ends = number % 3 == 0, number % 3 == 1
                rewards = np.asarray(rewards, np.float32)
                writer.add(Trajectory(obs, actions, rewards, *ends, float(rewards.sum(dtype=np.float64))))
        return folder

    return build


def random_actions(space, length, rng):
    """Random actions as recorded: choices are counted from 0, numbers lie within the bounds."""
    found = {}
    for key, spec in space_specs(space, "action").items():
        leaf = space if key == "action" else space[key]
        if isinstance(leaf, spaces.Box):
            found[key] = rng.uniform(leaf.low, leaf.high, (length, *leaf.shape)).astype(spec.dtype)
        else:
            found[key] = rng.integers(0, 2, (length, *spec.shape)).astype(spec.dtype)
    return found
