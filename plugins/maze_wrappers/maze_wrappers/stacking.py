"""Stacks of the last observations."""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, Literal

import numpy as np
from gymnasium import Space, spaces
from gymnasium.wrappers import FrameStackObservation, TransformObservation
from pydantic import Field

from maze_core import Plugin, flatten_space, hookimpl
from maze_core.envs.spaces import is_channels_first, is_image
from maze_wrappers.leaves import Env, LeafConfig, Part, check_single_actor, choose, rebuilt, reserved


class StackConfig(LeafConfig):
    """The parameters of `stack`."""

    size: int = Field(default=4, ge=1, le=1000)
    """Number of observations in a stack, the newest last."""
    padding: Literal["reset", "zero"] = "reset"
    """Fill of the stack at the start of an episode: its first observation, or zeros."""
    axis: int | None = None
    """Position of a new axis for the stack: 0 first, -1 last. None: images are stacked along their channels, everything
    else along a new first axis."""


class Stack(Plugin):
    """Stack the last observations (gymnasium's FrameStackObservation).

    Images keep their layout: (84, 84) becomes (84, 84, 4), (84, 84, 3) becomes (84, 84, 12), and (3, 84, 84), whose
    channels surely come first, becomes (12, 84, 84).
    """

    Config = StackConfig

    @hookimpl(wrapper=True)
    def make_env(self, config: Any, seed: int, index: int) -> Generator[None, Env, Env]:
        """Wrap the environment."""
        env = yield
        check_single_actor(
            env, "stack", "it would mix the turns of one with those of others", "Next: --set model.memory=gru"
        )
        leaves = flatten_space(env.observation_space, "observation")
        chosen = choose(leaves, self.config, self._problem, reserved(env))
        # Environments may overwrite an observation that they returned.
        copied = TransformObservation(env, copy.deepcopy, env.observation_space)
        stacked = FrameStackObservation(copied, self.config.size, padding_type=self.config.padding)
        stacks = flatten_space_of(stacked.observation_space, leaves)
        stay = {key: Part(leaves[key], _last) for key in leaves if key not in chosen}
        grown = {key: self._grown(leaves[key], stacks[key]) for key in chosen}
        whole = rebuilt(env.observation_space, {**stay, **grown}, "observation")
        return TransformObservation(stacked, whole.function, whole.space)

    def _problem(self, space: Space[Any]) -> str | None:
        if isinstance(space, spaces.MultiDiscrete):
            return "is a MultiDiscrete, which cannot be stacked"
        axis, count = self.config.axis or 0, len(space.shape or ())
        if not -count - 1 <= axis <= count:
            return f"has no position {axis} for a new axis"
        return (
            None
            if isinstance(space, spaces.Box) or not axis
            else f"is not a Box, and only a Box can be stacked along axis {axis}"
        )

    def _grown(self, space: Space[Any], stack: Space[Any]) -> Part:
        """Return the stack of a leaf: its space and the conversion of `[size, …]`."""
        axis = self.config.axis
        move = (
            _as_channels(space)
            if axis is None and is_image(space)
            else partial(np.moveaxis, source=0, destination=axis or 0)
        )
        if not isinstance(stack, spaces.Box):
            return Part(stack, _whole)
        return Part(spaces.Box(move(stack.low), move(stack.high), dtype=np.dtype(stack.dtype).type), move)


def _as_channels(space: Space[Any]) -> Callable[[np.ndarray], np.ndarray]:
    """Return the function from images `[size, …]` to one image with the channels of all, the newest last."""
    shape = space.shape or ()
    if len(shape) == 2:
        return lambda stack: np.moveaxis(stack, 0, -1)
    if is_channels_first(shape):
        return lambda stack: stack.reshape(-1, *shape[1:])
    return lambda stack: np.moveaxis(stack, 0, -2).reshape(*shape[:2], -1)


def flatten_space_of(space: Space[Any], leaves: dict[str, Space[Any]]) -> dict[str, Space[Any]]:
    """Return the stacked leaves by the keys of the plain ones, also leaves that Maze refuses."""
    found: dict[str, Space[Any]] = {}
    for key in leaves:
        at: Any = space
        if isinstance(space, spaces.Dict | spaces.Tuple):
            for part in key.split("/"):
                at = at[int(part) if isinstance(at, spaces.Tuple) else part]
        found[key] = at
    return found


def _last(value: Any) -> Any:
    return value[-1]


def _whole(value: Any) -> Any:
    return value
