"""Environments whose parameters change from episode to episode, in each way in which they can."""

from typing import ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces
from maze_environments.parameters import Choice, FloatRange, IntRange


class Corridor(gymnasium.Env):
    """Walk to the end; wind pushes back. Its size and the wind are attributes, `lag` is an argument."""

    observation_space = spaces.Box(-100, 100, (4,), np.float32)
    action_space = spaces.Discrete(2)
    curriculum: ClassVar = {"size": IntRange(2, 6), "wind": FloatRange(0, 0.5), "floor": Choice(("wood", "ice"))}

    def __init__(self, lag=0):
        self.size, self.wind, self.floor, self.lag = 3, 0.0, "wood", lag

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = self.steps = 0
        return self.see(), {}

    def see(self):
        return np.array([self.at, self.size, self.wind * 10 + (self.floor == "ice"), self.lag], np.float32)

    def step(self, action):
        self.steps += 1
        self.at += 1 if action else -1
        if self.np_random.random() < self.wind:
            self.at -= 1
        arrived, late = self.at >= self.size, self.steps >= 2 * self.size
        info = {"is_success": arrived} if arrived or late else {}
        return self.see(), float(arrived) + float(self.np_random.random()) / 100, arrived, late and not arrived, info


class Hall(Corridor):
    """A corridor with a method for its parameters."""

    def set_parameters(self, *, size, wind=0.0, floor="wood"):
        self.size, self.wind, self.floor = size, wind, floor


class Slope(gymnasium.Env):
    """An action of one number; the steepness is an argument of its constructor."""

    observation_space = spaces.Box(-100, 100, (2,), np.float32)
    action_space = spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, steepness=1.0, size=2):
        self.steepness, self.size = steepness, size

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.see(), {}

    def see(self):
        return np.array([self.steepness, self.np_random.random()], np.float32)

    def step(self, action):
        self.steps += 1
        return self.see(), -abs(float(action[0]) - self.steepness), False, self.steps >= 4, {}


class Growing(Slope):
    """Its observation depends on an argument."""

    def __init__(self, size=2):
        super().__init__()
        self.observation_space = spaces.Box(-100, 100, (size,), np.float32)


class Misspelt(Slope):
    """It declares what it neither has nor takes."""

    curriculum: ClassVar = {"stepness": FloatRange(0, 1)}
