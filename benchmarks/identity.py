"""Environments whose right action is what was observed: the least that an algorithm must learn.

Importing this module registers `IdentityDiscrete-v0`, `IdentityMultiDiscrete-v0`, `IdentityMultiBinary-v0` and
`IdentityBox-v0`. An episode has 100 steps; each observation is drawn anew, whatever was done. The best return is 100,
or 0 for the Box.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import gymnasium
import numpy as np
from gymnasium import Space, spaces

STEPS = 100


class Identity(gymnasium.Env[Any, Any]):
    """Reward 1 for repeating the observation exactly; for a Box minus the mean distance from it."""

    def __init__(self, space: Space[Any]) -> None:
        self.observation_space, self.action_space = deepcopy(space), deepcopy(space)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        return self._draw(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if isinstance(self.observation_space, spaces.Box):
            reward = -float(np.abs(action - self._shown).mean())
        else:
            reward = float(np.array_equal(action, self._shown))
        return self._draw(), reward, False, False, {}

    def _draw(self) -> Any:
        self._shown = self.observation_space.sample()
        return self._shown


SPACES: dict[str, Space[Any]] = {
    "IdentityDiscrete-v0": spaces.Discrete(10),
    "IdentityMultiDiscrete-v0": spaces.MultiDiscrete([4, 4]),
    "IdentityMultiBinary-v0": spaces.MultiBinary(4),
    "IdentityBox-v0": spaces.Box(-1.0, 1.0, (2,)),
}

for _id, _space in SPACES.items():
    gymnasium.register(_id, Identity, max_episode_steps=STEPS, kwargs={"space": _space})
