"""Environments of dm_env as environments of gymnasium."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from maze_core import ConfigError
from maze_foreign_envs.old_api import warn_of_seeds


class DmApi(gymnasium.Env[Any, Any]):
    """An environment of dm_env. The last step of an episode terminates it where its discount is 0, else truncates it.

    Args:
        env: the environment.
        seeded: its randomness was fixed when it was built. The resets of dm_env take no seed.
    """

    def __init__(self, env: Any, seeded: bool = False) -> None:
        self.env = env
        self._observed, self._action = env.observation_spec(), env.action_spec()
        self.observation_space = space_of(self._observed)
        self.action_space = space_of(self._action)
        if not seeded:
            warn_of_seeds(type(env).__name__)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        return _observation(self.env.reset().observation, self.observation_space), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step."""
        result = self.env.step(_action(action, self._action))
        last = bool(result.last())
        ended = last and not result.discount
        reward = 0.0 if result.reward is None else result.reward
        if isinstance(reward, np.ndarray) and reward.size == 1:
            reward = reward.item()
        observation = _observation(result.observation, self.observation_space)
        return observation, reward, ended, last and not ended, {}

    def close(self) -> None:
        """Close the environment."""
        self.env.close()


def space_of(spec: Any, path: str = "") -> gymnasium.Space[Any]:
    """Return the space of a specification: arrays, choices, and dicts or sequences of them.

    Raises:
        ConfigError: it holds texts, or something else than numbers.
    """
    if isinstance(spec, Mapping):
        return spaces.Dict({str(key): space_of(part, f"{path}/{key}") for key, part in spec.items()})
    if isinstance(spec, Sequence):
        return spaces.Tuple([space_of(part, f"{path}/{index}") for index, part in enumerate(spec)])
    if (choices := getattr(spec, "num_values", None)) is not None:
        return spaces.Discrete(int(choices))
    dtype = np.dtype(spec.dtype)
    if dtype.kind == "b":
        return spaces.Box(0, 1, tuple(spec.shape), np.int8)
    if dtype.kind not in "iuf":
        raise ConfigError(
            f"the specification {path.strip('/') or spec.name!r} of {type(spec).__name__} holds no numbers ({dtype})",
            "env",
            "Next: leave it out of what observation_spec and action_spec return.",
        )
    limits: Any = np.iinfo(dtype) if dtype.kind in "iu" else None
    low = getattr(spec, "minimum", -np.inf if limits is None else limits.min)
    high = getattr(spec, "maximum", np.inf if limits is None else limits.max)
    shape = tuple(spec.shape)
    return spaces.Box(_full(low, shape, dtype), _full(high, shape, dtype), shape, dtype.type)


def _full(value: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    return np.broadcast_to(np.asarray(value), shape).astype(dtype)


def _observation(value: Any, space: gymnasium.Space[Any]) -> Any:
    """Return an observation in its space: the numbers of dm_env may be Python's."""
    if isinstance(space, spaces.Dict):
        return {key: _observation(value[key], part) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_observation(each, part) for each, part in zip(value, space.spaces, strict=True))
    if isinstance(space, spaces.Discrete):
        return int(value)
    array = np.asarray(value)
    return array.astype(np.int8) if array.dtype.kind == "b" else array


def _action(action: Any, spec: Any) -> Any:
    """Return an action as its specification asks for it."""
    if isinstance(spec, Mapping):
        return {key: _action(action[str(key)], part) for key, part in spec.items()}
    if isinstance(spec, Sequence):
        return type(spec)([_action(each, part) for each, part in zip(action, spec, strict=True)])  # type: ignore[call-arg]
    return np.asarray(action, np.dtype(spec.dtype))[()]
