"""An environment whose task is a side: an action to that side is paid."""

import gymnasium
import numpy as np
from gymnasium import spaces


class Sides(gymnasium.Env):
    """Five steps; the reward of an action is itself, times the side, which the agent does not see."""

    observation_space = spaces.Box(0, 1, (1,), np.float32)
    action_space = spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, side: float = 1.0) -> None:
        self.side = side

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = 5
        return self._seen(), {}

    def step(self, action):
        self.left -= 1
        return self._seen(), self.side * float(action[0]), self.left == 0, False, {}

    def _seen(self):
        return np.array([self.left / 5], np.float32)


class OwnSides(Sides):
    """The same, with tasks of its own."""

    def sample_task(self, rng):
        return float(rng.choice([-1.0, 1.0]))

    def set_task(self, task):
        if abs(task) != 1:
            raise ValueError("a side is -1 or 1")
        self.side = task


class Elsewhere(Sides):
    """One whose tasks are refused."""

    def sample_task(self, rng):
        return 3.0

    set_task = OwnSides.set_task


class Wide(Sides):
    """One whose task is its number of observations."""

    def __init__(self, size: int = 2) -> None:
        super().__init__()
        self.observation_space = spaces.Box(0, 1, (size,), np.float32)

    def _seen(self):
        return np.zeros(self.observation_space.shape, np.float32)
