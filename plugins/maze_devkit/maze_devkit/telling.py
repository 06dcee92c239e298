"""Environments that report in their `info` what an algorithm learns from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium


class Telling(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Reports a number under each name: how many steps the episode has had, in tenths, and more where rewards fell.

    Args:
        make: builds the environment.
        names: keys of the `info`.
    """

    def __init__(self, make: Callable[[], gymnasium.Env[Any, Any]], names: Sequence[str]) -> None:
        super().__init__(make())
        self._names, self._steps = tuple(names), 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        self._steps = 0
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step, and report."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._steps += 1
        told = 0.1 * (self._steps % 10) + (float(reward) < 0)
        return observation, reward, terminated, truncated, {**info, **dict.fromkeys(self._names, told)}
