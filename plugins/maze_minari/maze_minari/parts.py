"""The parts of a data set's observations that are imported: some are left out, since Maze has no such spaces."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from gymnasium import Space, spaces

from maze_core import ConfigError
from maze_core.base.terminal_text import argument
from maze_core.envs.spaces import leaves


class Part(NamedTuple):
    """A part of the observations: its space, and the function that picks it from them."""

    space: Space[Any]
    pick: Callable[[Any], Any]


def kept_part(space: Space[Any], drop: Sequence[str]) -> Part:
    """Return the part of the observations that is left without some leaves or branches, such as `robot/arm`.

    Raises:
        ConfigError: there is no such leaf or branch, or nothing is left.
    """
    known = [place for place, _ in _places(space, "")]
    names = f"The leaves are {', '.join(known)}." if known != [""] else "The observation is a single array."
    for key in drop:
        if not any(_within(place, key) for place in known if place):
            raise ConfigError(f"the observations have no part {key!r}", "--drop", names)
    left = _left(space, drop, "")
    if left is None:
        raise ConfigError("no part of the observations is left", "--drop", names)
    return left


def check_supported(observation_space: Space[Any], action_space: Space[Any], source: str) -> None:
    """Check that Maze has the spaces of a data set.

    Raises:
        ConfigError: it has not; names the leaf, and for observations how to leave it out.
    """
    try:
        leaves(action_space, "action")
        leaves(observation_space, "observation")
    except ConfigError as error:
        message = f"{source} cannot be imported: {error.message}"
        refused = [place for place, leaf in _places(observation_space, "") if place and _is_refused(leaf)]
        hint = "Next: write the data set with Box, Discrete, MultiDiscrete, MultiBinary, Dict or Tuple spaces"
        if refused and "observation" in error.message:
            hint = f"Next: leave it out, {' '.join(f'--drop {argument(place)}' for place in refused)}"
        raise ConfigError(message, "", hint) from None


def _is_refused(leaf: Space[Any]) -> bool:
    try:
        leaves(leaf, "observation")
    except ConfigError:
        return True
    return False


def _children(space: Space[Any]) -> list[tuple[Any, Space[Any]]]:
    if isinstance(space, spaces.Dict):
        return list(space.spaces.items())
    return list(enumerate(space.spaces)) if isinstance(space, spaces.Tuple) else []


def _places(space: Space[Any], prefix: str) -> Iterator[tuple[str, Space[Any]]]:
    """Yield the leaves of a space, whatever they are, with their places."""
    children = _children(space)
    for key, child in children:
        yield from _places(child, f"{prefix}{key}/")
    if not children:
        yield prefix[:-1], space


def _within(place: str, key: str) -> bool:
    return f"{place}/".startswith(f"{key}/")


def _left(space: Space[Any], drop: Sequence[str], prefix: str) -> Part | None:
    """Return what is left of a space; None where that is nothing."""
    if any(_within(prefix[:-1], key) for key in drop if prefix):
        return None
    children = _children(space)
    if not children:
        return Part(space, lambda value: value)
    found = {key: _left(child, drop, f"{prefix}{key}/") for key, child in children}
    parts = {key: part for key, part in found.items() if part is not None}
    if not parts:
        return None
    if isinstance(space, spaces.Dict):
        kept = spaces.Dict({key: part.space for key, part in parts.items()})
        return Part(kept, lambda value: {key: part.pick(value[key]) for key, part in parts.items()})
    together = spaces.Tuple(tuple(part.space for part in parts.values()))
    return Part(together, lambda value: tuple(part.pick(value[key]) for key, part in parts.items()))
