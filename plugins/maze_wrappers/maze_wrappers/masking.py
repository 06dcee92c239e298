"""Action masks that the environment reports outside of its observation."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import gymnasium
from gymnasium import spaces
from maze_environments.mask_spaces import flat_masks, mask_space

from maze_core import ConfigError, Plugin, PluginConfig, RunError, hookimpl
from maze_core.envs.masks import MASK
from maze_wrappers.leaves import Env

_METHOD = "action_masks"


class MaskFromInfoConfig(PluginConfig):
    """The parameters of `mask_from_info`."""

    key: str = "action_mask"
    """Key of the mask in the `info` of `reset` and `step`."""


class MaskFromInfo(Plugin):
    """Put the mask of `info["action_mask"]`, or of the environment's method `action_masks()`, into the observation.

    The observation becomes a Dict with `action_mask`, and the leaf `observation` where it was not a Dict. For a Dict or
    Tuple action the mask is a Dict or Tuple of masks.
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
        self._key, self._masks = key, mask_space(env.action_space)
        inner = env.observation_space
        self._is_dict = isinstance(inner, spaces.Dict)
        leaves = dict(inner.spaces) if isinstance(inner, spaces.Dict) else {"observation": inner}
        if MASK in leaves:
            raise ConfigError(f"the observation has {MASK!r} already", None, "Remove the wrapper mask_from_info.")
        self.observation_space = spaces.Dict({**leaves, MASK: self._masks})

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
        mask = self._mask(given, over)
        return self._with(observation, mask), reward, bool(terminated), bool(truncated), info

    def _with(self, observation: Any, mask: Any) -> dict[str, Any]:
        return {**(observation if self._is_dict else {"observation": observation}), MASK: mask}

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

    def _mask(self, given: Any, over: bool = False) -> Any:
        """Return a copy of the mask. Raises RunError unless it has an entry for each choice."""
        try:
            masks = flat_masks(self._masks, given)
        except ValueError as error:
            raise RunError(f"mask_from_info got {error}") from None
        return flat_masks(self._masks, None) if over and _forbids_all(masks) else masks


def _forbids_all(masks: Any) -> bool:
    members = masks.values() if isinstance(masks, dict) else masks if isinstance(masks, tuple) else None
    return not masks.any() if members is None else any(map(_forbids_all, members))
