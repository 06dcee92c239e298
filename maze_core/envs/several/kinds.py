"""Kinds of actors: those with equal spaces share the leaves below their kind's name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from gymnasium import Space, spaces

from maze_core.envs.masks import masks_among
from maze_core.envs.spaces import flatten_space


class ActorSpaces(NamedTuple):
    """What an actor sees and what it may do."""

    observation: Space[Any]
    action: Space[Any]


class Kinds:
    """The kinds of some actors, each named after the first actor that has its spaces.

    Args:
        actors: the name of each actor → its spaces, which Maze supports.
    """

    def __init__(self, actors: Mapping[str, ActorSpaces]) -> None:
        self.of: dict[str, str] = {}
        """The kind of each actor, in the order of the actors."""
        self.spaces: dict[str, ActorSpaces] = {}
        """The spaces of each kind, in the order of their first actors."""
        for name, declared in actors.items():
            self.of[name] = next((kind for kind, known in self.spaces.items() if known == declared), name)
            self.spaces.setdefault(self.of[name], declared)

    @property
    def observation_spaces(self) -> dict[str, Space[Any]]:
        """The observation space of each kind."""
        return {kind: each.observation for kind, each in self.spaces.items()}

    @property
    def action_spaces(self) -> dict[str, Space[Any]]:
        """The action space of each kind."""
        return {kind: each.action for kind, each in self.spaces.items()}


def waiting_observation(declared: ActorSpaces) -> Any:
    """Return what is shown for an actor that waits: zeros, or the nearest value of the space, and ones in masks."""
    observed = flatten_space(declared.observation, "observation")
    return _blank(declared.observation, (), masks_among(observed, declared.action))


def _blank(space: Space[Any], path: tuple[str, ...], masks: set[str]) -> Any:
    if isinstance(space, spaces.Dict):
        return {key: _blank(child, (*path, key), masks) for key, child in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_blank(child, (*path, str(index)), masks) for index, child in enumerate(space.spaces))
    if isinstance(space, spaces.Discrete):
        return space.start
    if isinstance(space, spaces.MultiDiscrete):
        return np.array(space.start, space.dtype)
    value: np.ndarray = np.full(space.shape or (), 1 if "/".join(path) in masks else 0, np.dtype(space.dtype))
    return np.clip(value, space.low, space.high) if isinstance(space, spaces.Box) else value
