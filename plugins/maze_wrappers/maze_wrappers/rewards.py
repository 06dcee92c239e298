"""Rewards that are easier to learn from. Reported returns are still the environment's own."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import gymnasium
import numpy as np
from pydantic import Field

from maze_core import ConfigError, Plugin, PluginConfig, hookimpl, varies
from maze_core.base.saved_state import Number
from maze_core.base.terminal_text import counted
from maze_core.envs.wrappers import METRICS
from maze_wrappers.leaves import Env
from maze_wrappers.meters import below_meter

VectorEnv = gymnasium.vector.VectorEnv[Any, Any, Any]


class ScaleRewardConfig(PluginConfig):
    """The parameters of `scale_reward`."""

    factor: float = 1.0
    """Factor by which rewards are multiplied."""
    shift: float = 0.0
    """Number added after the multiplication."""

    def changes_nothing(self) -> bool:
        """Return True for rewards as they are."""
        return self.factor == 1 and self.shift == 0


class ScaleReward(Plugin):
    """Multiply rewards by a factor and add a constant (gymnasium's TransformReward)."""

    Config = ScaleRewardConfig

    @hookimpl(wrapper=True)
    def make_env(self, config: Any, seed: int, index: int) -> Generator[None, Env, Env]:
        """Wrap the environment."""
        return gymnasium.wrappers.TransformReward((yield), self._scaled)

    @hookimpl(wrapper=True)
    def make_vector_env(
        self, config: Any, num_envs: int, seed: int
    ) -> Generator[None, VectorEnv | None, VectorEnv | None]:
        """Wrap a natively vectorised environment."""
        env = yield
        return env and gymnasium.wrappers.vector.TransformReward(env, self._scaled)

    def _scaled(self, reward: Any) -> Any:
        return reward * self.config.factor + self.config.shift


class ScalarizeConfig(PluginConfig):
    """The parameters of `scalarize`."""

    weights: tuple[float, ...] = ()
    """Factor of each objective, whose sum is the reward; empty: 1 for each."""


class Scalarize(Plugin):
    """Weigh the numbers of a vector reward, and add them up: an environment with several objectives gets one.

    It acts below all other wrappers, so that reported returns are those of the sum. The return of each objective is
    reported as `objective_0`, `objective_1`, ….
    """

    Config = ScalarizeConfig

    @hookimpl(wrapper=True)
    def make_env(self, config: Any, seed: int, index: int) -> Generator[None, Env, Env]:
        """Wrap the environment."""
        return below_meter((yield), lambda env: Weighed(env, self.config.weights))


class Weighed(gymnasium.Wrapper[Any, Any, Any, Any]):
    """The weighted sum of vector rewards."""

    def __init__(self, env: Env, weights: tuple[float, ...]) -> None:
        super().__init__(env)
        self._weights, self._returns = np.asarray(weights, np.float64), np.zeros(0)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        self._returns = np.zeros(0)
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        given = np.asarray(reward, np.float64)
        numbers = np.atleast_1d(given)
        if given.ndim == 0 and self._weights.size == 0:
            raise ConfigError(
                "scalarize would change nothing: the reward is a single number", "wrappers", "Remove this wrapper."
            )
        if self._weights.size not in (0, numbers.size) or numbers.ndim != 1:
            example = ",".join(["1"] * numbers.size)
            raise ConfigError(
                f"has {counted(self._weights.size, 'number')}, and the rewards have {numbers.size}",
                "wrappers.weights",
                f"Next: --set 'wrappers.0.weights=[{example}]'",
            )
        self._returns = numbers + self._returns if self._returns.size else numbers
        if (terminated or truncated) and numbers.size > 1:
            told = {f"objective_{i}": float(value) for i, value in enumerate(self._returns)}
            info = {**info, METRICS: {**(info.get(METRICS) or {}), **told}}
        value = numbers @ self._weights if self._weights.size else numbers.sum()
        return observation, float(value), terminated, truncated, info


class ClipRewardConfig(PluginConfig):
    """The parameters of `clip_reward`."""

    low: float = -1.0
    """Lower bound of rewards."""
    high: float = 1.0
    """Upper bound of rewards."""


class ClipReward(Plugin):
    """Clip rewards to [low, high] (gymnasium's ClipReward)."""

    Config = ClipRewardConfig

    def __init__(self, config: ClipRewardConfig) -> None:
        super().__init__(config)
        if not config.low < config.high:
            raise ConfigError(f"must be above low ({config.low:g}), got {config.high:g}", "high")

    @hookimpl(wrapper=True)
    def make_env(self, config: Any, seed: int, index: int) -> Generator[None, Env, Env]:
        """Wrap the environment."""
        return gymnasium.wrappers.ClipReward((yield), self.config.low, self.config.high)

    @hookimpl(wrapper=True)
    def make_vector_env(
        self, config: Any, num_envs: int, seed: int
    ) -> Generator[None, VectorEnv | None, VectorEnv | None]:
        """Wrap a natively vectorised environment."""
        env = yield
        low, high = self.config.low, self.config.high
        return env and gymnasium.wrappers.vector.TransformReward(env, lambda reward: np.clip(reward, low, high))


class NormalizeRewardConfig(PluginConfig):
    """The parameters of `normalize_reward`."""

    gamma: float = Field(default=0.99, ge=0, le=1)
    """Discount factor of the running return; rewards are divided by its standard deviation."""
    epsilon: float = Field(default=1e-8, gt=0)
    """Number added to the variance for numerical stability."""


class NormalizeReward(Plugin):
    """Divide rewards by the running standard deviation of discounted returns (gymnasium's NormalizeReward).

    Each environment has its own statistics; they are part of the checkpoint.
    """

    Config = NormalizeRewardConfig

    @hookimpl(wrapper=True)
    def make_env(self, config: Any, seed: int, index: int) -> Generator[None, Env, Env]:
        """Wrap the environment."""
        return NormalizedReward((yield), self.config.gamma, self.config.epsilon)


class NormalizedReward(gymnasium.wrappers.NormalizeReward[Any, Any]):
    """gymnasium's wrapper with a state that can be saved."""

    def state(self) -> dict[str, Any]:
        """Return the statistics and the running return."""
        rms = self.return_rms
        return {
            "mean": float(rms.mean),
            "var": varies(float(rms.var), Number(0.0)),
            "count": varies(float(rms.count), Number(0.0)),
            "running": self.discounted_reward.copy(),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`."""
        rms = self.return_rms
        rms.mean, rms.var, rms.count = np.array(state["mean"]), np.array(state["var"]), state["count"]
        self.discounted_reward = np.array(state["running"])
