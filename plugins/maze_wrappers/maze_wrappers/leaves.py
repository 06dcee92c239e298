"""Wrappers for single leaves: choose leaves, and apply a gymnasium wrapper to each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium
from gymnasium import Space, spaces
from gymnasium.wrappers import TransformAction, TransformObservation

from maze_core import ConfigError, PluginConfig, flatten_space
from maze_core.envs.actors import TURN, actors_of
from maze_core.envs.masks import masks_among
from maze_core.envs.spaces import Role

Env = gymnasium.Env[Any, Any]
Problem = Callable[[Space[Any]], str | None]
"""Returns why a leaf cannot be treated, as the end of a sentence; None where it can."""


class LeafConfig(PluginConfig):
    """The parameters of every wrapper that treats leaves one by one."""

    keys: tuple[str, ...] | None = None
    """Leaves to transform, such as `camera` or `robot/arm`; none: all suitable leaves except action masks."""
    exclude: tuple[str, ...] = ()
    """Leaves not to transform."""


@dataclass(frozen=True, slots=True)
class Part:
    """A converted leaf: its new space, and the function between old and new values."""

    space: Space[Any]
    function: Callable[[Any], Any]


class _Lone(gymnasium.Env[Any, Any]):
    """A leaf as an environment, for a gymnasium wrapper to be built around; it is never stepped."""

    def __init__(self, role: Role, space: Space[Any]) -> None:
        self.observation_space = space if role == "observation" else spaces.Discrete(1)
        self.action_space = space if role == "action" else spaces.Discrete(1)


def observe(env: Env, config: LeafConfig, problem: Problem, make: Callable[[Env], Any]) -> Env:
    """Convert each chosen observation leaf with the gymnasium wrapper that `make` returns for it.

    Raises:
        ConfigError: a key is not a leaf or cannot be treated, or there is nothing to treat.
    """

    def part(space: Space[Any]) -> Part:
        wrapper = make(_Lone("observation", space))
        return Part(wrapper.observation_space, wrapper.observation)

    return observe_parts(env, config, problem, part)


def observe_parts(env: Env, config: LeafConfig, problem: Problem, make: Callable[[Space[Any]], Part]) -> Env:
    """Convert the chosen observation leaves with `make`. Raises the errors of `observe`."""
    leaves = flatten_space(env.observation_space, "observation")
    chosen = choose(leaves, config, problem, reserved(env))
    whole = rebuilt(env.observation_space, {key: make(leaves[key]) for key in chosen}, "observation")
    return TransformObservation(env, whole.function, whole.space)


def act(env: Env, config: LeafConfig, problem: Problem, make: Callable[[Env], Any]) -> Env:
    """Convert each chosen action leaf with the gymnasium wrapper that `make` returns for it."""
    leaves = flatten_space(env.action_space, "action")
    parts = {}
    for key in choose(leaves, config, problem):
        wrapper = make(_Lone("action", leaves[key]))
        parts[key] = Part(wrapper.action_space, wrapper.action)
    whole = rebuilt(env.action_space, parts, "action")
    return TransformAction(env, whole.function, whole.space)


def reserved(env: Env) -> dict[str, str]:
    """Return the observation leaves that no wrapper may change, and why: masks, and whose turn it is."""
    leaves = every_leaf(env.observation_space)
    several = actors_of(env.observation_space) is not None
    found = dict.fromkeys(sorted(masks_among(leaves, env.action_space)), "is an action mask")
    return found | {key: "says whose turn it is" for key in leaves if several and key.startswith(f"{TURN}/")}


def check_single_actor(env: Env, name: str, reason: str, hint: str) -> None:
    """Raise ConfigError for a wrapper that does not fit an environment in which several actors take turns."""
    if actors_of(env.observation_space) is not None:
        raise ConfigError(f"{name} does not fit an environment with several actors: {reason}", None, hint)


def every_leaf(space: Space[Any], role: Role = "observation") -> dict[str, Space[Any]]:
    """Return the leaves of a space by key, also those that Maze refuses: a wrapper may convert them."""
    return dict(_walk(space, "", role))


def _walk(space: Space[Any], prefix: str, role: Role) -> Iterator[tuple[str, Space[Any]]]:
    if isinstance(space, spaces.Dict | spaces.Tuple):
        children = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        for key, child in children:
            yield from _walk(child, f"{prefix}{key}/", role)
    else:
        yield prefix[:-1] or role, space


def choose(
    leaves: Mapping[str, Space[Any]], config: LeafConfig, problem: Problem, reserved: Mapping[str, str] | None = None
) -> list[str]:
    """Return the leaves to treat, in the order of the space.

    Raises:
        ConfigError: a key is not a leaf, is reserved or cannot be treated, or there is nothing to treat.
    """
    known, kept = f"The leaves are {', '.join(leaves)}.", reserved or {}
    for field in ("keys", "exclude"):
        for key in getattr(config, field) or ():
            if key not in leaves:
                raise ConfigError(f"there is no leaf {key!r}", field, known)
    if config.keys is not None:
        for key in config.keys:
            reason = kept.get(key) or problem(leaves[key])
            if reason:
                raise ConfigError(f"{key!r} ({leaves[key]}) {reason}", "keys")
    wanted = [key for key in leaves if key not in config.exclude and key not in kept]
    chosen = [
        key for key in wanted if (key in config.keys if config.keys is not None else problem(leaves[key]) is None)
    ]
    if not chosen:
        reasons = ", ".join(f"{key!r} {problem(leaves[key]) or 'is excluded'}" for key in leaves)
        raise ConfigError(f"{config.name} would change nothing: {reasons}", None, "Remove this wrapper.")
    return chosen


def rebuilt(space: Space[Any], parts: Mapping[str, Part], role: Role) -> Part:
    """Return a space with some leaves replaced, and the function that converts their values."""
    return _rebuilt(space, parts, "", role)


def _rebuilt(space: Space[Any], parts: Mapping[str, Part], prefix: str, single: str) -> Part:
    if isinstance(space, spaces.Dict):
        children = {key: _rebuilt(child, parts, f"{prefix}{key}/", single) for key, child in space.spaces.items()}
        return Part(
            spaces.Dict({key: child.space for key, child in children.items()}),
            lambda value: {key: child.function(value[key]) for key, child in children.items()},
        )
    if isinstance(space, spaces.Tuple):
        members = [_rebuilt(child, parts, f"{prefix}{i}/", single) for i, child in enumerate(space.spaces)]
        return Part(
            spaces.Tuple(tuple(member.space for member in members)),
            lambda value: tuple(member.function(each) for member, each in zip(members, value, strict=True)),
        )
    return parts.get(prefix[:-1] or single, Part(space, _same))


def _same(value: Any) -> Any:
    return value
