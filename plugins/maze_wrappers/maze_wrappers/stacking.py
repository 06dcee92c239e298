"""The last few observations at once."""

from __future__ import annotations

import copy
from collections.abc import Generator
from typing import Any, Literal

from gymnasium import Space, spaces
from gymnasium.wrappers import FrameStackObservation, TransformObservation
from pydantic import Field

from maze_core.envs.spaces import flatten_space
from maze_core.plugins.base import Plugin
from maze_core.plugins.hookspecs import hookimpl
from maze_wrappers.leaves import Env, LeafConfig, Part, choose, masks, rebuilt


class StackConfig(LeafConfig):
    """The parameters of `stack`."""

    size: int = Field(default=4, ge=1, le=1000)
    """Observations in a stack, the newest last."""
    padding: Literal["reset", "zero"] = "reset"
    """What fills the stack when an episode begins: its first observation, or zeros."""


class Stack(Plugin):
    """Stack the last observations along a new first axis (gymnasium's FrameStackObservation)."""

    Config = StackConfig

    @hookimpl(wrapper=True)
    def make_env(self, config: Any, seed: int, index: int) -> Generator[None, Env, Env]:
        """Wrap."""
        env = yield
        leaves = flatten_space(env.observation_space, "observation")
        chosen = choose(leaves, self.config, _no_stack, masks(env))
        # Environments may overwrite the observation they gave.
        copied = TransformObservation(env, copy.deepcopy, env.observation_space)
        stacked = FrameStackObservation(copied, self.config.size, padding_type=self.config.padding)
        stacks = flatten_space_of(stacked.observation_space, leaves)
        stay = {key: Part(leaves[key], _last) for key in leaves if key not in chosen}
        grown = {key: Part(stacks[key], _whole) for key in chosen}
        whole = rebuilt(env.observation_space, {**stay, **grown}, "observation")
        return TransformObservation(stacked, whole.function, whole.space)


def flatten_space_of(space: Space[Any], leaves: dict[str, Space[Any]]) -> dict[str, Space[Any]]:
    """The stacked leaves, also such as Maze would refuse, by the keys of the plain ones."""
    found: dict[str, Space[Any]] = {}
    for key in leaves:
        at: Any = space
        if isinstance(space, spaces.Dict | spaces.Tuple):
            for part in key.split("/"):
                at = at[int(part) if isinstance(at, spaces.Tuple) else part]
        found[key] = at
    return found


def _no_stack(space: Space[Any]) -> str | None:
    return "is a MultiDiscrete, which does not stack" if isinstance(space, spaces.MultiDiscrete) else None


def _last(value: Any) -> Any:
    return value[-1]


def _whole(value: Any) -> Any:
    return value
