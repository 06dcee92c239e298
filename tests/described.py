"""A task whose choices are described by features: which is right says what it is like, not its number."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

COUNT, FEATURES = 8, 4


class Colours(gymnasium.Env[Any, int]):
    """Ten times, take the choice whose features are those wanted; choices are others, in another order, each time."""

    observation_space = spaces.Dict(
        {
            "wanted": spaces.Box(-1, 1, (FEATURES,), np.float32),
            "choices": spaces.Box(-1, 1, (COUNT, FEATURES), np.float32),
            "action_mask": spaces.MultiBinary(COUNT),
        }
    )
    action_space = spaces.Discrete(COUNT)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._left = 10
        return self._look(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if not self._mask[action]:
            raise ValueError(f"{action} is forbidden by {self._mask}")
        reward, self._left = float(action == self._right), self._left - 1
        return self._look(), reward, False, not self._left, {}

    def _look(self) -> dict[str, np.ndarray]:
        numbers = self.np_random.permutation(2**FEATURES)[:COUNT]
        choices = (((numbers[:, None] >> np.arange(FEATURES)) & 1) * 2 - 1).astype(np.float32)
        self._right = int(self.np_random.integers(COUNT))
        self._mask = (self.np_random.random(COUNT) < 0.7).astype(np.int8)
        self._mask[self._right] = 1
        return {"wanted": choices[self._right], "choices": choices, "action_mask": self._mask}
