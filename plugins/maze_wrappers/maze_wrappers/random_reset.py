"""Episodes that begin after some random steps."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import gymnasium
import numpy as np
from pydantic import Field

from maze_core import ConfigError, Plugin, PluginConfig, hookimpl
from maze_core.collect.policies.random import RandomPolicy
from maze_core.envs.codecs import ActionCodec, ObservationCodec
from maze_core.envs.masks import masks_among
from maze_wrappers.leaves import Env, every_leaf

_STREAM = 7919
"""Separates the wrapper's random stream from that of the environment, which has the same seed."""
_ATTEMPTS = 10


class RandomResetConfig(PluginConfig):
    """The parameters of `random_reset`."""

    min_steps: int = Field(default=0, ge=0)
    """Minimum number of steps after a reset."""
    max_steps: int = Field(default=30, ge=1)
    """Maximum number of steps; the number is drawn for each episode."""
    action: int | None = Field(default=None, ge=-(2**62), le=2**62)
    """Discrete action to take, such as a no-op; none: random actions that masks allow."""


class RandomReset(Plugin):
    """Take some steps at each reset, so that episodes begin in different states; these steps are not counted."""

    Config = RandomResetConfig

    def __init__(self, config: RandomResetConfig) -> None:
        super().__init__(config)
        if config.min_steps > config.max_steps:
            raise ConfigError(f"must be at most max_steps ({config.max_steps}), got {config.min_steps}", "min_steps")

    @hookimpl(wrapper=True)
    def make_env(self, config: Any, seed: int, index: int) -> Generator[None, Env, Env]:
        """Wrap the environment."""
        env = yield
        action = self.config.action
        if action is not None and not env.action_space.contains(np.int64(action)):
            raise ConfigError(f"{action} is not in {env.action_space}", "action")
        if action is not None and (found := sorted(masks_among(every_leaf(env.observation_space), env.action_space))):
            problem = f"does not fit the action mask {found[0]!r}, which may forbid the action {action}"
            raise ConfigError(problem, "action", "Leave it out: random actions are those that the mask allows.")
        return _Shuffled(env, self.config)


class _Shuffled(gymnasium.Wrapper[Any, Any, Any, Any]):
    def __init__(self, env: Env, config: RandomResetConfig) -> None:
        super().__init__(env)
        self._config = config
        self._observations, self._actions = ObservationCodec(env.observation_space), ActionCodec(env.action_space)
        self._policy = RandomPolicy(config)
        self._policy.setup(env.observation_space, env.action_space)
        self._rng = np.random.default_rng()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            self._rng = np.random.default_rng([seed, _STREAM])
        for _ in range(_ATTEMPTS):
            observation, info = self.env.reset(seed=seed, options=options)
            seed, ended = None, False
            for _ in range(self._rng.integers(self._config.min_steps, self._config.max_steps + 1)):
                observation, _, terminated, truncated, info = self.env.step(self._action(observation))
                ended = bool(terminated or truncated)
                if ended:
                    break
            if not ended:
                return observation, info
        return self.env.reset(options=options)

    def _action(self, observation: Any) -> Any:
        if self._config.action is not None:
            return np.int64(self._config.action)
        tree = self._policy.act(self._observations.tree(observation), [self._rng])
        return self._actions.rows(tree)[0]
