"""Time: limits and skipped steps."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import gymnasium
from pydantic import Field

from maze_core.envs.mask_changes import MaskChanges
from maze_core.envs.several.agents import LimitedAgents, MultiAgentEnv
from maze_core.envs.several.wrapped import RepeatedActions, add_numbers
from maze_core.plugins.base import Plugin
from maze_core.plugins.config.base import PluginConfig
from maze_core.plugins.hookspecs import hookimpl
from maze_wrappers.leaves import Env, check_single_actor


class TimeLimitConfig(PluginConfig):
    """The parameters of `time_limit`."""

    steps: int = Field(default=1000, ge=1)
    """Steps after which an episode is truncated."""


class TimeLimit(Plugin):
    """Truncate episodes after a number of steps (gymnasium's TimeLimit); a shorter limit of the environment stays."""

    Config = TimeLimitConfig

    @hookimpl(wrapper=True)
    def make_env(self, config: Any, seed: int, index: int) -> Generator[None, Env, Env]:
        """Wrap the environment."""
        return gymnasium.wrappers.TimeLimit((yield), self.config.steps)

    def wrap_agents(self, env: MultiAgentEnv) -> MultiAgentEnv:
        """Truncate the episode of all agents after as many steps of the environment."""
        return LimitedAgents(env, self.config.steps)


class StepSkipConfig(PluginConfig):
    """The parameters of `step_skip`."""

    steps: int = Field(default=4, ge=1)
    """Environment steps per action. The run and the algorithm's `gamma` count them as one step."""
    add_up: tuple[str, ...] = ()
    """Numbers of the `info` that are added up as rewards are, such as the `cost` of PPO-Lagrangian. All other entries
    are those of the last step."""

    def changes_nothing(self) -> bool:
        """Return True for one environment step per action."""
        return self.steps == 1


class StepSkip(Plugin):
    """Take each action several times and add up the rewards; the observation is the last one.

    Where the action mask changes in between, the next action is chosen at once: the last one may be forbidden now.

    The algorithm sees one step: its rewards are added without discount, and `gamma` is applied once. So raise a `gamma`
    meant for single steps to the power of `steps`.
    """

    Config = StepSkipConfig

    @hookimpl(wrapper=True)
    def make_env(self, config: Any, seed: int, index: int) -> Generator[None, Env, Env]:
        """Wrap the environment."""
        env = yield
        check_single_actor(env, "step_skip", "an action is that of one turn", "Remove this wrapper.")
        return _Skipping(env, self.config)

    def wrap_agents(self, env: MultiAgentEnv) -> MultiAgentEnv:
        """Take the actions of all agents several times."""
        return RepeatedActions(env, self.config.steps, self.config.add_up)


class _Skipping(gymnasium.Wrapper[Any, Any, Any, Any]):
    def __init__(self, env: Env, config: StepSkipConfig) -> None:
        super().__init__(env)
        self._config = config
        self._masks = MaskChanges(env.observation_space, env.action_space)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        self._masks.look(observation)
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        total, sums = 0.0, dict[str, float]()
        for _ in range(self._config.steps):
            observation, reward, terminated, truncated, info = self.env.step(action)
            total += float(reward)
            add_numbers(sums, info, self._config.add_up)
            if terminated or truncated or self._masks.look(observation):
                break
        return observation, total, terminated, truncated, {**info, **sums} if sums else info
