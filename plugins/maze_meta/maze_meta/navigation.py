"""Navigation of a point to a goal, the first environment of the MAML paper."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class PointNavigation(gymnasium.Env[np.ndarray, np.ndarray]):
    """A point that begins at (0, 0) is to go to a goal that it does not see: the task.

    It sees its place and moves by at most 0.1 along each axis. The reward is minus the distance to the goal after the
    move. An episode ends within 0.01 of the goal, or after `horizon` steps.

    Args:
        goal: the goal; None: that of the last `set_task`, or one drawn from the square at each reset.
        horizon: steps of an episode.
        size: half the side of the square of goals.
    """

    def __init__(self, goal: list[float] | None = None, horizon: int = 100, size: float = 0.5) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = spaces.Box(-0.1, 0.1, (2,), np.float32)
        self._task = None if goal is None else np.asarray(goal, np.float64)
        self._horizon, self._size = horizon, size

    def sample_task(self, rng: np.random.Generator) -> np.ndarray:
        """Return a goal of the square."""
        return rng.uniform(-self._size, self._size, 2)

    def set_task(self, task: np.ndarray) -> None:
        """Set the goal of the episodes that follow."""
        self._task = np.asarray(task, np.float64)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin at (0, 0)."""
        super().reset(seed=seed)
        self._goal = self.sample_task(self.np_random) if self._task is None else self._task
        self._place, self._steps = np.zeros(2), 0
        return self._place.astype(np.float32), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Move; return the place and minus the distance to the goal."""
        self._place = self._place + np.clip(action, -0.1, 0.1)
        self._steps += 1
        offset = self._place - self._goal
        distance = float(np.sqrt(offset @ offset))
        return self._place.astype(np.float32), -distance, distance < 0.01, self._steps == self._horizon, {}
