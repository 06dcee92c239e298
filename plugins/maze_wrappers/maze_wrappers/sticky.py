"""Actions that are repeated at random."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import gymnasium
import numpy as np
from pydantic import Field

from maze_core import ConfigError, Plugin, PluginConfig, hookimpl
from maze_core.envs.masks import masks_among
from maze_wrappers.leaves import Env, check_single_actor, every_leaf

_STREAM = 7927
"""Separates the wrapper's random stream from that of the environment, which has the same seed."""


class StickyActionsConfig(PluginConfig):
    """The parameters of `sticky_actions`."""

    probability: float = Field(default=0.25, ge=0, lt=1)
    """Probability that a step takes the last action again instead of the chosen one."""

    def changes_nothing(self) -> bool:
        """Return True for actions that are never repeated."""
        return self.probability == 0


class StickyActions(Plugin):
    """Take the last action again, with some probability, so that a policy cannot learn actions by heart.

    The first step of an episode takes the chosen action. Which steps repeat is determined by the episode's seed.
    """

    Config = StickyActionsConfig

    @hookimpl(wrapper=True)
    def make_env(self, config: Any, seed: int, index: int) -> Generator[None, Env, Env]:
        """Wrap the environment."""
        env = yield
        check_single_actor(env, "sticky_actions", "the last action is another actor's", "Remove this wrapper.")
        if found := sorted(masks_among(every_leaf(env.observation_space), env.action_space)):
            raise ConfigError(
                f"sticky_actions does not fit the action mask {found[0]!r}: the last action may be forbidden now",
                None,
                "Remove this wrapper.",
            )
        return _Sticky(env, self.config.probability)


class _Sticky(gymnasium.Wrapper[Any, Any, Any, Any]):
    def __init__(self, env: Env, probability: float) -> None:
        super().__init__(env)
        self._probability = probability
        self._rng = np.random.default_rng()
        self._last: Any = None
        self._begins = True

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            self._rng = np.random.default_rng([seed, _STREAM])
        self._begins = True
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        if self._begins or self._rng.random() >= self._probability:
            self._last = action
        self._begins = False
        return self.env.step(self._last)
