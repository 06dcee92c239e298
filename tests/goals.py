"""Environments with goals, small enough to be learnt in tests."""

from __future__ import annotations

import gymnasium
import numpy as np
from gymnasium import spaces


class BitFlips(gymnasium.Env):
    """n bits, of which each step flips one; -1 until they equal the goal (Andrychowicz et al. 2017, section 3.1)."""

    def __init__(self, n: int = 8, ends: bool = True) -> None:
        bits = spaces.MultiBinary(n)
        self.observation_space = spaces.Dict({"observation": bits, "achieved_goal": bits, "desired_goal": bits})
        self.action_space = spaces.Discrete(n)
        self._n, self._ends = n, ends

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._bits, self._goal = self.np_random.integers(2, size=(2, self._n), dtype=np.int8)
        self._steps = 0
        return self.observe(), {}

    def step(self, action):
        self._bits[action] ^= 1
        self._steps += 1
        observation = self.observe()
        reward = float(self.compute_reward(observation["achieved_goal"], observation["desired_goal"], {}))
        reached = bool((self._bits == self._goal).all())
        return observation, reward, self._ends and reached, self._steps >= self._n, {"is_success": reached}

    def compute_reward(self, achieved_goal, desired_goal, info):
        return (achieved_goal == desired_goal).all(-1) - 1.0

    def observe(self):
        return {
            "observation": self._bits.copy(),
            "achieved_goal": self._bits.copy(),
            "desired_goal": self._goal.copy(),
        }


class Reach(gymnasium.Env):
    """A point in the plane that is moved to a goal; -1 for each step until it is nearer than 0.2. 12 steps."""

    action_space = spaces.Box(-1, 1, (2,), np.float32)

    def __init__(self, length: int = 12) -> None:
        place = spaces.Box(-1, 1, (2,), np.float64)
        self.observation_space = spaces.Dict({"observation": place, "achieved_goal": place, "desired_goal": place})
        self._length = length

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._place, self._goal = self.np_random.uniform(-1, 1, (2, 2))
        self._steps = 0
        return self.observe(), {}

    def step(self, action):
        self._place = np.clip(self._place + 0.2 * action, -1, 1)
        self._steps += 1
        reward = self.compute_reward(self._place, self._goal, {})
        return self.observe(), reward, False, self._steps >= self._length, {"is_success": reward == 0}

    def compute_reward(self, achieved_goal, desired_goal, info):
        return 0.0 if float(np.linalg.norm(achieved_goal - desired_goal)) < 0.2 else -1.0

    def compute_terminated(self, achieved_goal, desired_goal, info):
        return False

    def observe(self):
        return {"observation": self._place, "achieved_goal": self._place, "desired_goal": self._goal}
