"""Small environments for tests of learning: their values are known, or they expose every difference between runs."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from maze_devkit.envs import SeededWalk


class Steady(gymnasium.Env[np.ndarray, np.int64]):
    """One state and a constant reward of 1, truncated by a time limit of 8: the value is 1 / (1 - gamma).

    Treating truncation as termination underestimates the value.
    """

    def __init__(self, limit: int = 8) -> None:
        self.observation_space = spaces.Box(0, 1, (1,), np.float32)
        self.action_space = spaces.Discrete(2)
        self._limit, self._steps = limit, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin again."""
        super().reset(seed=seed)
        self._steps = 0
        return np.ones(1, np.float32), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Return the same observation."""
        self._steps += 1
        return np.ones(1, np.float32), 1.0, False, self._steps >= self._limit, {}


class Bandit(gymnasium.Env[np.ndarray, np.int64]):
    """One step per episode; action 0 of three has reward 1, the others 0."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0, 1, (1,), np.float32)
        self.action_space = spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        return np.ones(1, np.float32), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Return the reward and end the episode."""
        return np.ones(1, np.float32), float(action == 0), True, False, {}


class Workshop(gymnasium.Env[Any, Any]):
    """Observations: an image, a vector and a number. Actions: a choice, a force and switches.

    Seed and actions determine everything, so any difference between two runs changes observations, rewards and episode
    lengths. Actions must be in the space. An episode ends at random, or is truncated after 20 steps.
    """

    def __init__(self) -> None:
        self.observation_space = spaces.Dict(
            {
                "picture": spaces.Box(0, 255, (6, 8, 3), np.uint8),
                "gauge": spaces.Box(-np.inf, np.inf, (3,), np.float64),
                "mode": spaces.Discrete(4, start=2),
            }
        )
        self.action_space = spaces.Dict(
            {
                "tool": spaces.Discrete(3, start=1),
                "arm": spaces.Dict({"force": spaces.Box(np.array([-1, 0], np.float32), np.array([1, 3], np.float32))}),
                "switches": spaces.MultiBinary(2),
            }
        )
        self._gauge, self._mode, self._steps = np.zeros(3), 2, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """Begin somewhere."""
        super().reset(seed=seed)
        self._gauge, self._mode, self._steps = self.np_random.normal(size=3), 2, 0
        return self.observe(), {}

    def step(self, action: dict[str, Any]) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Move the gauge by the action and at random."""
        if not self.action_space.contains(action):
            raise ValueError(f"{action!r} is not in {self.action_space}")
        push = np.array([*action["arm"]["force"], float(action["tool"]) - 2])
        self._gauge = 0.9 * self._gauge + 0.1 * push + 0.1 * self.np_random.normal(size=3)
        self._mode = 2 + (self._mode - 2 + int(action["switches"].sum())) % 4
        self._steps += 1
        over = bool(self.np_random.random() < 0.08)
        return self.observe(), float(self._gauge.sum()), over, self._steps >= 20, {}

    def observe(self) -> dict[str, Any]:
        """Return what the agent observes now."""
        picture = np.zeros((6, 8, 3), np.uint8)
        picture[self._mode, :, :] = np.clip(128 + 40 * self._gauge, 0, 255).astype(np.uint8)
        return {"picture": picture, "gauge": self._gauge.copy(), "mode": np.int64(self._mode)}


class Doors(gymnasium.Env[Any, Any]):
    """Two choices at once, with masks that change every step; a masked choice is refused.

    `locked` True masks every choice of the second door at step 3 and accepts any.
    """

    def __init__(self, locked: bool = False) -> None:
        self.observation_space = spaces.Dict(
            {"place": spaces.Box(-1, 1, (2,), np.float32), "action_mask": spaces.MultiBinary(7)}
        )
        self.action_space = spaces.MultiDiscrete([3, 4])
        self._locked, self._steps = locked, 0
        self._mask = np.ones(7, np.int8)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Begin an episode of ten steps."""
        super().reset(seed=seed)
        self._steps = 0
        return self.observe(), {}

    def step(self, action: np.ndarray) -> tuple[dict[str, np.ndarray], float, bool, bool, dict[str, Any]]:
        """Go through two doors."""
        first, second = (int(a) for a in action)
        if self._mask[3:].any() and not (self._mask[first] and self._mask[3 + second]):
            raise ValueError(f"{action!r} is masked by {self._mask!r}")
        self._steps += 1
        return self.observe(), float(first - second), self._steps >= 10, False, {}

    def observe(self) -> dict[str, np.ndarray]:
        """Return what the agent observes now."""
        self._mask = (self.np_random.random(7) < 0.6).astype(np.int8)
        self._mask[[self.np_random.integers(3), 3 + self.np_random.integers(4)]] = 1
        if self._locked and self._steps == 3:
            self._mask[3:] = 0
        place = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return {"place": place, "action_mask": self._mask.copy()}


class Walk(SeededWalk):
    """A random walk with steps of -1, 0 and 1; if `continuous`, with any step between -1 and 1."""

    def __init__(self, continuous: bool = False) -> None:
        super().__init__()
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        if continuous:
            self.action_space = spaces.Box(-1, 1, (1,), np.float32)  # type: ignore[assignment]

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Move by the action and at random."""
        return super().step(action if np.ndim(action) == 0 else action[0] + 1)

    def observe(self) -> np.ndarray:
        """Return what the agent observes now."""
        return np.array([self._position, self._steps / 30], np.float32)


class Told(SeededWalk):
    """A random walk that masks one of its three steps, a different one each time, and tells of it in its info."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin somewhere."""
        observation, _ = super().reset(seed=seed)
        return observation, self._info()

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Move."""
        *result, _ = super().step(action)
        return *result, self._info()  # type: ignore[return-value]

    def _info(self) -> dict[str, Any]:
        return {"action_mask": np.arange(3) != self._steps % 3, "wind": np.full(3, self._steps, np.float32)}


class Signal(gymnasium.Env[np.ndarray, Any]):
    """Five steps per episode, each with one of four lights that shows the right choice, or force if `continuous`.

    The reward of a step is 1 for the right choice and 0 otherwise, or 1 minus the distance to the force. A policy that
    ignores the light gets a quarter, or a half.
    """

    length = 5

    def __init__(self, continuous: bool = False) -> None:
        self.observation_space = spaces.Box(0, 1, (4,), np.float32)
        self.action_space: spaces.Space[Any] = spaces.Box(-1, 1, (1,), np.float32) if continuous else spaces.Discrete(4)
        self._continuous, self._steps, self._light = continuous, 0, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        """Show the first light."""
        super().reset(seed=seed)
        self._steps = 0
        return self.observe(), {}

    def best_action(self) -> Any:
        """Return the action that the light shows."""
        return np.array([self._light / 2 - 0.75], np.float32) if self._continuous else np.int64(self._light)

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Reward the action, and show the next light."""
        best = self.best_action()
        reward = 1 - float(np.abs(action - best).sum()) if self._continuous else float(action == best)
        self._steps += 1
        return self.observe(), reward, self._steps >= self.length, False, {}

    def observe(self) -> np.ndarray:
        """Return what the agent observes now."""
        self._light = int(self.np_random.integers(4))
        shown = np.zeros(4, np.float32)
        shown[self._light] = 1
        return shown


class Ending(gymnasium.Env[np.ndarray, Any]):
    """Episodes of three steps that terminate, or truncate if `truncate`, in a state `last` that occurs only there.

    Rewards are small, so that the errors of values are below 1: the gradient of a Huber loss depends only on those.
    """

    def __init__(self, truncate: bool, last: float, continuous: bool = False) -> None:
        self.observation_space = spaces.Box(-4, 4, (2,), np.float32)
        self.action_space: spaces.Space[Any] = spaces.Box(-1, 1, (1,), np.float32) if continuous else spaces.Discrete(3)
        self._truncate, self._last, self._steps = truncate, last, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin again."""
        super().reset(seed=seed)
        self._steps = 0
        return self.observe(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Step; the action affects only the reward."""
        self._steps += 1
        over = self._steps >= 3
        reward = 0.1 + 0.01 * float(np.sum(action))
        return self.observe(), reward, over and not self._truncate, over and self._truncate, {}

    def observe(self) -> np.ndarray:
        """Return what the agent observes now."""
        return np.array([self._steps / 3, self._last if self._steps >= 3 else 0.0], np.float32)
