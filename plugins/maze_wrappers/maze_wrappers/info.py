"""Numbers that the environment reports in its `info`, as parts of the observation."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Annotated, Any

import gymnasium
import numpy as np
from gymnasium import spaces
from pydantic import Field, PositiveInt

from maze_core import ConfigError, Plugin, PluginConfig, RunError, hookimpl
from maze_wrappers.leaves import Env

Shape = tuple[PositiveInt, ...]


class InfoToObservationConfig(PluginConfig):
    """The parameters of `info_to_observation`."""

    keys: Annotated[dict[str, Shape], Field(min_length=1)]
    """Entries of the `info`, each with its shape: `{speed: [], wind: [3]}` are a number and a vector of 3."""


class InfoToObservation(Plugin):
    """Put numbers of the environment's `info` into the observation, as leaves of float32.

    The observation becomes a Dict, with the leaf `observation` where it was none. `reset` and `step` must report every
    entry; where the last step of an episode does not, the entry keeps its value.
    """

    Config = InfoToObservationConfig

    @hookimpl(wrapper=True)
    def make_env(self, config: Any, seed: int, index: int) -> Generator[None, Env, Env]:
        """Wrap the environment."""
        return _Told((yield), self.config.keys)


class _Told(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Adds entries of the info to observations."""

    def __init__(self, env: Env, shapes: Mapping[str, Shape]) -> None:
        super().__init__(env)
        self._shapes, inner = shapes, env.observation_space
        self._is_dict = isinstance(inner, spaces.Dict)
        leaves = dict(inner.spaces) if isinstance(inner, spaces.Dict) else {"observation": inner}
        if taken := [key for key in shapes if key in leaves]:
            raise ConfigError(f"the observation has {taken[0]!r} already", "keys", f"It has {', '.join(leaves)}.")
        told = {key: spaces.Box(-np.inf, np.inf, shape, np.float32) for key, shape in shapes.items()}
        self.observation_space = spaces.Dict({**leaves, **told})
        self._last: dict[str, np.ndarray] = {}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._last = {}
        return self._with(observation, info), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        over = bool(terminated or truncated)
        return self._with(observation, info, over), reward, bool(terminated), bool(truncated), info

    def _with(self, observation: Any, info: Mapping[str, Any], over: bool = False) -> dict[str, Any]:
        found = {key: self._entry(key, info, over) for key in self._shapes}
        self._last = found
        return {**(observation if self._is_dict else {"observation": observation}), **found}

    def _entry(self, key: str, info: Mapping[str, Any], over: bool) -> np.ndarray:
        """Return an entry as an array of its own. Raises RunError if it is missing or does not fit."""
        if key not in info:
            if over and key in self._last:
                return self._last[key]
            raise RunError(f"info_to_observation: the info has no {key!r} but {sorted(map(str, info))}")
        try:
            value = np.array(info[key], np.float32)
        except (TypeError, ValueError) as error:
            raise RunError(f"info_to_observation: {key!r} in the info is no number: {error}") from None
        if value.shape != self._shapes[key]:
            raise RunError(
                f"info_to_observation: {key!r} in the info has the shape {value.shape}, not {self._shapes[key]}"
            )
        return value
