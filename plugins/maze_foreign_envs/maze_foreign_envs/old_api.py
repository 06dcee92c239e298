"""The old interface of gym, and that between the two, as environments of gymnasium."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from maze_core import ConfigError
from maze_core.envs.checks import check_info
from maze_core.envs.interfaces import arguments_of_reset, parameters_of


class OldApi(gymnasium.Env[Any, Any]):
    """An environment of gym 0.21 or 0.26, or one of gymnasium that kept a reset of that time.

    `reset` may return the observation alone, and `step` one flag `done`; `info["TimeLimit.truncated"]` tells a time
    limit from an end. A seed is passed on where `reset` takes one, or there is a method `seed`.

    Args:
        env: the environment.
        seeded: its randomness was fixed when it was built, so that nothing is lost where `reset` takes no seed.
    """

    def __init__(self, env: Any, seeded: bool = False) -> None:
        self.env = env
        self.observation_space = gymnasium_space(env.observation_space)
        self.action_space = gymnasium_space(env.action_space)
        self.metadata = dict(getattr(env, "metadata", None) or {})
        self.render_mode = getattr(env, "render_mode", None)
        self._takes = arguments_of_reset(env)
        self._seed = getattr(env, "seed", None)
        if not (seeded or "seed" in self._takes or callable(self._seed)):
            warn_of_seeds(type(getattr(env, "unwrapped", env)).__name__)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        if seed is not None and "seed" not in self._takes and callable(self._seed):
            self._seed(seed)
        given = {"seed": seed, "options": options}
        result = self.env.reset(**{name: value for name, value in given.items() if name in self._takes})
        if isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], Mapping | None):
            return result  # an info that is None is refused where it is read
        return result, {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step."""
        result = tuple(self.env.step(action))
        if len(result) == 4:
            observation, reward, done, info = result
            check_info(info)
            cut = bool(done) and bool(info.get("TimeLimit.truncated", False))
            return observation, _number(reward), bool(done) and not cut, cut, dict(info)
        observation, reward, terminated, truncated, info = result
        return observation, _number(reward), terminated, truncated, info

    def render(self) -> Any:
        """Return the environment's picture: in gym 0.21 the mode is an argument."""
        if self.render_mode is None and "mode" in parameters_of(self.env.render):
            return self.env.render(mode="rgb_array")
        return self.env.render()

    def close(self) -> None:
        """Close the environment, where it can be closed."""
        close = getattr(self.env, "close", None)
        if callable(close):
            close()

    def __getattr__(self, name: str) -> Any:
        """Return what else the environment has, such as `action_masks`."""
        if name.startswith("_") or name == "env":
            raise AttributeError(name)
        return getattr(self.env, name)


def with_old_inside(env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    """Return a gymnasium environment with its innermost one, below all wrappers, taken for one of the old interface."""
    if not isinstance(env, gymnasium.Wrapper):
        return OldApi(env)
    layer = env
    while isinstance(layer.env, gymnasium.Wrapper):
        layer = layer.env
    layer.env = OldApi(layer.env)
    return env


def warn_of_seeds(name: str) -> None:
    """Warn that the episodes of an environment do not follow from the seed of the run."""
    warnings.warn(
        f"the resets of {name} take no seed, so its episodes may differ from run to run, also with one --seed",
        RuntimeWarning,
        stacklevel=2,
    )


def gymnasium_space(space: Any) -> Any:
    """Return a space of gym as one of gymnasium; any other as it is.

    Raises:
        ConfigError: gymnasium has no such space.
    """
    if isinstance(space, gymnasium.Space):
        return space
    kind = type(space).__name__
    if kind == "Box":
        return spaces.Box(np.asarray(space.low), np.asarray(space.high), tuple(space.shape), space.dtype)
    if kind == "Discrete":
        return spaces.Discrete(int(space.n), start=int(getattr(space, "start", 0)))
    if kind == "MultiDiscrete":
        return spaces.MultiDiscrete(np.asarray(space.nvec))
    if kind == "MultiBinary":
        return spaces.MultiBinary(space.n)
    if kind == "Dict":
        return spaces.Dict({key: gymnasium_space(part) for key, part in space.spaces.items()})
    if kind == "Tuple":
        return spaces.Tuple([gymnasium_space(part) for part in space.spaces])
    raise ConfigError(
        f"the environment has a space of the kind {kind}, which gymnasium does not know",
        "env",
        "Next: write a gymnasium.Env around it with a Box, Discrete, MultiDiscrete, MultiBinary, Dict or Tuple space.",
    )


def _number(reward: Any) -> Any:
    """Return a reward; an array of a single number, which the old interface allowed, as that number."""
    return reward.item() if isinstance(reward, np.ndarray) and reward.size == 1 else reward
