"""Environments that do not last, for runs that fail; imported by name in worker processes."""

from __future__ import annotations

import os
import signal

import gymnasium
import numpy as np

from maze_core import ActingPolicy, PluginConfig


class Breaks(gymnasium.Env):
    """Raises at its tenth step."""

    observation_space, action_space = gymnasium.spaces.Box(0, 1, (2,)), gymnasium.spaces.Discrete(2)
    steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        if self.steps == 10:
            self.end()
        return np.zeros(2, np.float32), 0.0, False, self.steps % 5 == 0, {}

    def end(self):
        raise ValueError("out of luck")


class Dies(Breaks):
    """Takes its process with it."""

    def end(self):
        os.kill(os.getpid(), signal.SIGKILL)


class First(ActingPolicy):
    """Takes the first action."""

    class Config(PluginConfig):
        """It has no parameters."""

    def act(self, obs, rngs):
        return {"action": np.zeros(len(rngs), np.int64)}


gymnasium.register("Breaks-v0", Breaks)
gymnasium.register("Dies-v0", Dies)
