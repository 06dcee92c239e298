"""Wrappers below the meter that counts raw rewards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from maze_core.envs.wrappers import RewardMeter, layers


def below_meter(
    env: gymnasium.Env[Any, Any], wrap: Callable[[gymnasium.Env[Any, Any]], gymnasium.Env[Any, Any]]
) -> gymnasium.Env[Any, Any]:
    """Return the environment with the one below its meter wrapped: what is counted as raw comes from the wrapper."""
    found = [layer for layer in layers(env) if isinstance(layer, RewardMeter)]
    if not found:
        return wrap(env)
    found[-1].env = wrap(found[-1].env)
    return env


def has_vector_reward(env: gymnasium.Env[Any, Any]) -> bool:
    """Return True for an environment that declares rewards of several numbers, as those of MO-Gymnasium do."""
    return bool(np.prod(getattr(getattr(env.unwrapped, "reward_space", None), "shape", None) or (1,)) > 1)
