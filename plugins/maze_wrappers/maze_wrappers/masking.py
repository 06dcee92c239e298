"""Action masks that the environment reports outside of its observation."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import gymnasium
import numpy as np
from gymnasium import Space, spaces

from maze_core.config.base import PluginConfig
from maze_core.errors import ConfigError, RunError
from maze_core.plugins.base import Plugin
from maze_core.plugins.hookspecs import hookimpl
from maze_wrappers.leaves import Env

_METHOD = "action_masks"
_LEAF = "action_mask"


class MaskFromInfoConfig(PluginConfig):
    """The parameters of `mask_from_info`."""

    key: str = "action_mask"
    """Key of the mask in the `info` of `reset` and `step`."""


class MaskFromInfo(Plugin):
    """Put the mask of `info["action_mask"]`, or of the environment's method `action_masks()`, into the observation.

    The observation becomes a Dict with the leaf `action_mask`, and the leaf `observation` where it was not a Dict.
    Without a mask in `info` the method is called; without either, the run ends with an error. The last observation of
    an episode has no action; its mask allows everything where it is missing or forbids everything.
    """

    Config = MaskFromInfoConfig

    @hookimpl(wrapper=True)
    def make_env(self, config: Any, seed: int, index: int) -> Generator[None, Env, Env]:
        """Wrap the environment."""
        return InfoMasked((yield), self.config.key)


class InfoMasked(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Adds the mask of the next action to observations."""

    def __init__(self, env: Env, key: str) -> None:
        super().__init__(env)
        self._key, self._size = key, _size(env.action_space)
        inner = env.observation_space
        self._is_dict = isinstance(inner, spaces.Dict)
        leaves = dict(inner.spaces) if isinstance(inner, spaces.Dict) else {"observation": inner}
        if _LEAF in leaves:
            raise ConfigError(f"the observation has {_LEAF!r} already", None, "Remove the wrapper mask_from_info.")
        self.observation_space = spaces.Dict({**leaves, _LEAF: spaces.MultiBinary(self._size)})

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        observation, info = self.env.reset(seed=seed, options=options)
        given = self._given(info)
        if given is None:
            raise ConfigError(self._missing(info), "wrappers", "Set key to the entry of the info that holds the mask.")
        return self._with(observation, self._mask(given)), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        given, over = self._given(info), bool(terminated or truncated)
        if given is None and not over:
            raise RunError(self._missing(info))
        mask = np.ones(self._size, np.int8) if given is None else self._mask(given, over)
        return self._with(observation, mask), reward, bool(terminated), bool(truncated), info

    def _with(self, observation: Any, mask: np.ndarray) -> dict[str, Any]:
        return {**(observation if self._is_dict else {"observation": observation}), _LEAF: mask}

    def _given(self, info: dict[str, Any]) -> Any:
        """Return the mask as the environment reports it; None where it has none."""
        given = info.get(self._key)
        if given is None and self.env.has_wrapper_attr(_METHOD):
            given = self.env.get_wrapper_attr(_METHOD)()
        return given

    def _missing(self, info: dict[str, Any]) -> str:
        return (
            f"mask_from_info found no mask: the info has no {self._key!r} but {sorted(map(str, info))}, and the "
            f"environment no method {_METHOD}()"
        )

    def _mask(self, given: Any, over: bool = False) -> np.ndarray:
        """Return a copy of the mask. Raises RunError unless it has an entry for each choice."""
        # A MultiDiscrete may have a list of masks, one for each member.
        members = [np.ravel(each) for each in given] if isinstance(given, tuple | list) else [np.ravel(given)]
        mask: np.ndarray = (np.concatenate(members) != 0).astype(np.int8)
        if mask.shape != (self._size,):
            raise RunError(f"mask_from_info got a mask of {mask.size} entries for {self._size} choices")
        return np.ones(self._size, np.int8) if over and not mask.any() else mask


def _size(space: Space[Any]) -> int:
    """Return the number of entries in the mask of an action.

    Raises:
        ConfigError: it cannot be masked.
    """
    if isinstance(space, spaces.Discrete):
        return int(space.n)
    if isinstance(space, spaces.MultiDiscrete):
        return int(space.nvec.sum())
    if isinstance(space, spaces.MultiBinary) and isinstance(space.n, int | np.integer):
        return int(space.n)
    raise ConfigError(f"the action space is {space}: mask_from_info is for Discrete, MultiDiscrete and MultiBinary")
