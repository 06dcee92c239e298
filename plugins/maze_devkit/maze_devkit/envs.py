"""Small environments with known answers, for tests of Maze and of plugins."""

from __future__ import annotations

import os
import sys
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class CountingEnv(gymnasium.Env[np.ndarray, np.int64]):
    """Counts its steps and shows its whole state in its observation.

    Observation: [tag, episode since construction, step in the episode]; reward: tag + step / 100. An episode ends
    after `length` steps: terminated, or truncated if asked for. With `one_buffer` every observation is the same
    array, overwritten at each step, so an observation must be copied to be kept.
    """

    def __init__(self, length: int = 3, tag: int = 0, truncate: bool = False, one_buffer: bool = True) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float32)
        self.action_space = spaces.Discrete(3)
        self._length, self._tag, self._truncate = length, tag, truncate
        self._episode, self._step = -1, 0
        self._buffer = np.zeros(3, np.float32)
        self._one_buffer = one_buffer

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin the next episode."""
        super().reset(seed=seed)
        self._episode += 1
        self._step = 0
        return self.observe(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Count."""
        if not self.action_space.contains(action):
            raise ValueError(f"{action!r} is not in {self.action_space}")
        self._step += 1
        over = self._step >= self._length
        ends = (over and not self._truncate, over and self._truncate)
        return self.observe(), self._tag + self._step / 100, *ends, {}

    def observe(self) -> np.ndarray:
        """Return what the agent observes now."""
        self._buffer[:] = self._tag, self._episode, self._step
        return self._buffer if self._one_buffer else self._buffer.copy()


class SeededWalk(gymnasium.Env[np.ndarray, np.int64]):
    """A random walk that depends on its seed and actions, so any difference between two runs shows.

    Observation: [position, seed modulo 1000]; reward: the position; terminated with probability 0.1 per step,
    truncated after 30.
    """

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)
        self.action_space = spaces.Discrete(3)
        self._position, self._steps, self._seed = 0.0, 0, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin at a random position."""
        super().reset(seed=seed)
        self._seed = (seed or 0) % 1000
        self._position, self._steps = float(self.np_random.normal()), 0
        return self.observe(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Move by the action and at random."""
        self._position += float(action) - 1 + float(self.np_random.normal())
        self._steps += 1
        over = bool(self.np_random.random() < 0.1)
        return self.observe(), self._position, over, self._steps >= 30, {}

    def observe(self) -> np.ndarray:
        """Return what the agent observes now."""
        return np.array([self._position, self._seed])


class SpacesEnv(gymnasium.Env[Any, Any]):
    """Samples observations of any space and accepts only actions in a given space; an episode has five steps."""

    def __init__(self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]) -> None:
        self.observation_space, self.action_space = observation_space, action_space
        self._steps = 0
        self.last_action: Any = None
        self.last_observation: Any = None

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self._steps = 0
        return self.observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take an action, which must be in the action space."""
        if not self.action_space.contains(action):
            raise ValueError(f"{action!r} is not in {self.action_space}")
        self.last_action = action
        self._steps += 1
        return self.observe(), 1.0, False, self._steps >= 5, {}

    def observe(self) -> Any:
        """Return what the agent observes now."""
        self.last_observation = self.observation_space.sample()
        return self.last_observation


class FailingEnv(SeededWalk):
    """Fails at step 3 of each episode in the chosen way.

    Ways: `raise`, `nan_observation`, `nan_reward`, `no_reward`, `hang`, `exit` (the process), `sys.exit`.
    """

    def __init__(self, way: str, at: int = 3) -> None:
        super().__init__()
        self._way, self._at = way, at

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step, or fail."""
        observation, reward, *_ = super().step(action)
        result: Any = reward
        if self._steps == self._at:
            if self._way == "raise":
                raise ZeroDivisionError("the wheel came off")
            if self._way == "hang":
                import time

                time.sleep(600)
            if self._way == "exit":
                os._exit(7)  # like a crash; sys.exit would only raise an exception
            if self._way == "sys.exit":
                sys.exit(0)
            if self._way == "nan_observation":
                observation[0] = np.nan
            result = {"nan_reward": float("nan"), "no_reward": "much"}.get(self._way, reward)
        return observation, result, False, False, {}
