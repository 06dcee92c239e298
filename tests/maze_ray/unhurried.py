"""An environment that takes its time, so that actors do not occupy the processors of tests that wait for something."""

from __future__ import annotations

import time
from typing import Any

import gymnasium
from gymnasium.envs.classic_control.cartpole import CartPoleEnv


class Unhurried(CartPoleEnv):
    """CartPole, at most a thousand steps a second."""

    def step(self, action: Any) -> Any:
        """Wait, and step."""
        time.sleep(0.001)
        return super().step(action)


gymnasium.register("Unhurried-v0", Unhurried, max_episode_steps=100)
