"""CartPole whose steps take a while, as those of a simulator do."""

from __future__ import annotations

import time
from typing import Any

import gymnasium


class Sleeping(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Sleeps before each step.

    Args:
        milliseconds: how long.
    """

    def __init__(self, milliseconds: float = 0.0) -> None:
        super().__init__(gymnasium.make("CartPole-v1", disable_env_checker=True))
        self._seconds = milliseconds / 1000

    def step(self, action: Any) -> Any:
        """Sleep, then step."""
        if self._seconds:
            time.sleep(self._seconds)
        return self.env.step(action)


gymnasium.register("SleepingCartPole-v0", entry_point="sleeping:Sleeping", max_episode_steps=500)
