"""An environment for runs that must repeat themselves."""

from __future__ import annotations

import gymnasium
import numpy as np
from gymnasium import spaces


class Drift(gymnasium.Env):
    """A walk in steps of the action and of the episode's seed, so any difference between two runs shows."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = spaces.Box(-3, 1, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._position = self.np_random.normal(size=2)
        return self._position.astype(np.float32), {}

    def step(self, action):
        self._position = self._position + action + self.np_random.normal(size=2)
        ended = self.np_random.random() < 0.1
        return self._position.astype(np.float32), float(-np.square(self._position).sum()), ended, False, {}
