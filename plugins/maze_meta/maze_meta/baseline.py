"""Advantages with a baseline that is linear in features of observation and time (Duan et al., arXiv 1604.06778)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from maze_onpolicy import generalized_advantages, rollout_discounts

from maze_core import take_rows
from maze_core.envs.actors import is_for_critics

if TYPE_CHECKING:
    from maze_core import Rollout, Tree

_RIDGE = 1e-5
_WIDEST = 256
# Numbers of an observation leaf above which it is left out: of images only time counts.
_BOUND = 10.0


def advantages(rollout: Rollout, gamma: float, gae_lambda: float) -> np.ndarray:
    """Return generalised advantages [T, N] of a rollout that began with its episodes.

    The baseline is fitted to the discounted rewards from each step to the end of its episode, at most to that of the
    rollout. It stands for what follows a time limit and the end of the rollout.
    """
    discounts, continues = rollout_discounts(rollout, gamma), rollout.continues.astype(np.float32)
    zeros = np.zeros_like(rollout.rewards)
    returns = generalized_advantages(rollout.rewards, zeros, zeros, discounts, continues, 1.0)
    time, later = _time(rollout), _leaves(rollout.following())
    before = _features(_leaves(take_rows(rollout.obs, slice(-1))), time)
    weights = _fit(before.reshape(-1, before.shape[-1]), returns.reshape(-1))
    values, next_values = ((features @ weights).astype(np.float32) for features in (before, _features(later, time + 1)))
    return generalized_advantages(rollout.rewards, values, next_values, discounts, continues, gae_lambda)


def _leaves(obs: Tree) -> Tree:
    """Return the leaves that the baseline sees: not what critics alone see, and no images."""
    return {key: leaf for key, leaf in obs.items() if not is_for_critics(key) and np.prod(leaf.shape[2:]) <= _WIDEST}


def _time(rollout: Rollout) -> np.ndarray:
    """Return the number of each step in its episode, [T, N], from 0."""
    time = np.zeros(rollout.rewards.shape)
    for t in range(1, len(time)):
        time[t] = np.where(rollout.ended[t - 1], 0, time[t - 1] + 1)
    return time


def _features(obs: Tree, time: np.ndarray) -> np.ndarray:
    """Return the observations, their squares, three powers of time and 1: [T, N, F]."""
    seen = [np.clip(leaf.reshape(*time.shape, -1), -_BOUND, _BOUND).astype(np.float64) for leaf in obs.values()]
    part = time[..., None] / 100
    return np.concatenate([*seen, *(each**2 for each in seen), part, part**2, part**3, np.ones_like(part)], -1)


def _fit(features: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Return the weights [F] of a ridge regression."""
    weights: np.ndarray = np.linalg.solve(
        features.T @ features + _RIDGE * np.eye(features.shape[1]), features.T @ targets
    )
    return weights
