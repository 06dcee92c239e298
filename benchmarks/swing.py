"""A pendulum of changing mass, which earns reward only upright: a light one is lifted at once, a heavy one swings."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces
from gymnasium.envs.classic_control.pendulum import PendulumEnv
from maze_environments.parameters import FloatRange

LIGHT, HEAVY = 0.2, 1.6


class Swing(PendulumEnv):
    """The observation has the mass; an episode's return is the number of steps near the top."""

    curriculum: ClassVar = {"m": FloatRange(LIGHT, HEAVY)}

    def __init__(self) -> None:
        super().__init__()
        high = np.array([1.0, 1.0, self.max_speed, 10.0], np.float32)
        self.observation_space = spaces.Box(-high, high, dtype=np.float32)
        self.m = HEAVY

    def step(self, u: Any) -> Any:
        """Swing; the reward is 1 near the top."""
        obs, _, terminated, truncated, info = super().step(u)
        return obs, float(obs[0] > 0.95), terminated, truncated, info

    def _get_obs(self) -> Any:
        return np.append(super()._get_obs(), np.float32(self.m))
