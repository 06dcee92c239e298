"""Recordings for plugins that learn from demonstrations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from maze_recordings.writer import TrajectoryWriter

from maze_core import Trajectory, Tree
from maze_core.base.tree import concat_trees
from maze_core.envs.codecs import ActionCodec, ObservationCodec
from maze_devkit.subject import MakeEnv


def record(make_env: MakeEnv, folder: Path, episodes: int) -> Path:
    """Record episodes in an environment and return `folder`. An existing recording is kept."""
    if folder.exists():
        return folder
    env = make_env()
    env.action_space.seed(0)
    with TrajectoryWriter(folder, env.observation_space, env.action_space) as writer:
        for number in range(episodes):
            writer.add(_episode(env, number))
    env.close()
    return folder


def _episode(env: Any, seed: int) -> Trajectory:
    observe, act = ObservationCodec(env.observation_space).tree, ActionCodec(env.action_space).tree
    choose = getattr(env, "best_action", env.action_space.sample)
    rows, actions, rewards = [observe(env.reset(seed=seed)[0])], [], []
    terminated = truncated = False
    while not (terminated or truncated):
        action = choose()
        observation, reward, terminated, truncated, _ = env.step(action)
        rows.append(observe(observation))
        actions.append(act(action))
        rewards.append(reward)
    total = float(np.sum(rewards))
    flags = bool(terminated), bool(truncated and not terminated)
    return Trajectory(_joined(rows), _joined(actions), np.array(rewards, np.float32), *flags, total, seed)


def _joined(rows: list[Tree]) -> Tree:
    return concat_trees(rows)
