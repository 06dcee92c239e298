"""Select or drop parts of an observation, of any space."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np
from gymnasium import Space, spaces
from gymnasium.wrappers import TransformObservation
from pydantic import Field

from maze_core import ConfigError, Plugin, PluginConfig, hookimpl
from maze_core.envs.actors import ACTOR, ELAPSED, TURN, actors_of
from maze_wrappers.leaves import Env, LeafConfig, Part, every_leaf, observe_parts


class ChoiceConfig(PluginConfig):
    """The parameters of `select` and `drop`."""

    keys: tuple[str, ...] = Field(min_length=1)
    """Leaves or branches of the observation tree, such as `mission` or `robot/arm`."""


class Select(Plugin):
    """Keep some parts of a Dict or Tuple observation and drop the others, also those whose spaces Maze refuses."""

    Config = ChoiceConfig

    @hookimpl(wrapper=True)
    def make_env(self, config: Any, seed: int, index: int) -> Generator[None, Env, Env]:
        """Wrap the environment."""
        env = yield
        kept = self.config.keys if actors_of(env.observation_space) is None else (*self.config.keys, TURN)
        return _chosen(env, kept, lambda place, keys: any(_within(place, key) for key in keys))


class Drop(Plugin):
    """Drop some parts of a Dict or Tuple observation, also those whose spaces Maze refuses."""

    Config = ChoiceConfig

    @hookimpl(wrapper=True)
    def make_env(self, config: Any, seed: int, index: int) -> Generator[None, Env, Env]:
        """Wrap the environment."""
        env = yield
        if actors_of(env.observation_space) is not None and any(_within(place, key) for key in self.config.keys
                                                                for place in (ACTOR, ELAPSED)):  # fmt: skip
            raise ConfigError("the part 'turn' says whose turn it is, and cannot be dropped", "keys")
        return _chosen(env, self.config.keys, lambda place, keys: not any(_within(place, key) for key in keys))


class HideConfig(LeafConfig):
    """The parameters of `hide`."""

    elements: tuple[int, ...] = Field(min_length=1)
    """Elements to remove, counted from 0, such as velocities: [1, 3] of CartPole-v1, [2] of Pendulum-v1."""


class Hide(Plugin):
    """Remove elements of Box vectors, such as velocities: what is left may need a policy with memory."""

    Config = HideConfig

    @hookimpl(wrapper=True)
    def make_env(self, config: Any, seed: int, index: int) -> Generator[None, Env, Env]:
        """Wrap the environment."""
        return observe_parts((yield), self.config, self._problem, self._without)

    def _problem(self, space: Space[Any]) -> str | None:
        if not isinstance(space, spaces.Box) or len(space.shape) != 1:
            return "is no Box of one dimension"
        size, hidden = space.shape[0], set(self.config.elements)
        if not hidden <= set(range(size)):
            return f"has the elements 0 to {size - 1}"
        return "would have no element left" if len(hidden) == size else None

    def _without(self, space: Any) -> Part:
        left = np.array([i for i in range(space.shape[0]) if i not in self.config.elements])
        # Indexing by an array copies: the environment may reuse its own.
        return Part(spaces.Box(space.low[left], space.high[left], dtype=space.dtype.type), lambda value: value[left])


def _within(place: str, key: str) -> bool:
    return f"{place}/".startswith(f"{key}/")


def _chosen(env: Env, keys: Sequence[str], stays: Callable[[str, Sequence[str]], bool]) -> Env:
    """Return the environment with the leaves for which `stays` is true.

    Raises:
        ConfigError: a key does not exist, or no leaf stays.
    """
    known = every_leaf(env.observation_space)
    if not isinstance(env.observation_space, spaces.Dict | spaces.Tuple):
        raise ConfigError(
            f"the observation is a single {type(env.observation_space).__name__}: it has no parts", "keys"
        )
    for key in keys:
        if not any(_within(place, key) for place in known):
            raise ConfigError(f"there is no part {key!r}", "keys", f"The parts are {', '.join(known)}.")
    left = _left(env.observation_space, lambda place: stays(place, keys), "")
    if all(stays(place, keys) for place in known):
        raise ConfigError("would change nothing: every part stays", "keys", "Remove this wrapper.")
    if left is None:
        raise ConfigError("no part of the observation is left", "keys", f"The parts are {', '.join(known)}.")
    return TransformObservation(env, left.function, left.space)


def _children(space: Space[Any]) -> list[tuple[Any, Space[Any]]]:
    if isinstance(space, spaces.Dict):
        return list(space.spaces.items())
    return list(enumerate(space.spaces)) if isinstance(space, spaces.Tuple) else []


def _left(space: Space[Any], stays: Callable[[str], bool], prefix: str) -> Part | None:
    """Return the remaining part of a space; None where nothing remains."""
    children = _children(space)
    if not children:
        return Part(space, lambda value: value) if stays(prefix[:-1]) else None
    found = {key: _left(child, stays, f"{prefix}{key}/") for key, child in children}
    parts = {key: part for key, part in found.items() if part is not None}
    if not parts:
        return None
    if isinstance(space, spaces.Dict):
        return Part(
            spaces.Dict({key: part.space for key, part in parts.items()}),
            lambda value: {key: part.function(value[key]) for key, part in parts.items()},
        )
    return Part(
        spaces.Tuple(tuple(part.space for part in parts.values())),
        lambda value: tuple(part.function(value[key]) for key, part in parts.items()),
    )
