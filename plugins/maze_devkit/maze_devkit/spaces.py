"""The spaces with which plugins are tested."""

from __future__ import annotations

import copy
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from maze_devkit.envs import SpacesEnv
from maze_devkit.subject import MakeEnv

Space = spaces.Space[Any]

OBSERVATIONS: dict[str, Space] = {
    "a vector": spaces.Box(-1, 1, (3,), np.float32),
    "a number of five": spaces.Discrete(5, start=-2),
    "unbounded float64": spaces.Box(-np.inf, np.inf, (2, 2), np.float64),
    "an image": spaces.Box(0, 255, (12, 12, 3), np.uint8),
    "bits": spaces.MultiBinary(4),
    "several parts": spaces.Dict(
        {"gauge": spaces.Box(-1, 1, (2,), np.float32), "inner": spaces.Dict({"mode": spaces.MultiDiscrete([2, 3])})}
    ),
}
"""Observation spaces by description."""

ACTIONS: dict[str, tuple[tuple[type[Space], ...], Space]] = {
    "a choice": ((spaces.Discrete,), spaces.Discrete(3, start=2)),
    "a bounded vector": ((spaces.Box,), spaces.Box(np.array([-2, 0], np.float32), np.array([1, 5], np.float32))),
    "several choices": ((spaces.MultiDiscrete,), spaces.MultiDiscrete([2, 3])),
    "bits": ((spaces.MultiBinary,), spaces.MultiBinary(3)),
    "several parts": (
        (spaces.Dict, spaces.Discrete, spaces.Box),
        spaces.Dict({"tool": spaces.Discrete(2), "force": spaces.Box(-1, 1, (2,), np.float32)}),
    ),
}
"""Action spaces by description, with the kinds of spaces that an algorithm must declare for them."""


class _Make:
    """Builds environments of two spaces; can be sent to another process."""

    def __init__(self, observation_space: Space, action_space: Space) -> None:
        self._spaces = observation_space, action_space

    def __call__(self) -> gymnasium.Env[Any, Any]:
        """Return an environment with its own copies of the spaces, since a space holds a random state."""
        return SpacesEnv(*copy.deepcopy(self._spaces))


def environment(observation_space: Space, action_space: Space) -> MakeEnv:
    """Return a builder of environments that sample such observations and accept only such actions."""
    return _Make(observation_space, action_space)
