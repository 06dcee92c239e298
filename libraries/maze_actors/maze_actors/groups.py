"""Groups of actors that share a network, and the spaces that their policies are built for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gymnasium import Space, spaces

from maze_core.base.errors import ConfigError
from maze_core.envs.actors import CRITIC, ActorId

ONE_HOT = "actor_id"
"""The leaf by which a network that several actors share knows who acts."""
_WHERE = "model.groups"


@dataclass(frozen=True, slots=True)
class Group:
    """Actors of one kind that share a network."""

    name: str
    kind: str
    actors: tuple[int, ...]
    """Their numbers."""


def groups_of(actors: ActorId, wanted: str | Mapping[str, tuple[str, ...]]) -> list[Group]:
    """Return the groups: `shared`: one for each kind; `per_actor`: one for each actor; or as the mapping says.

    Raises:
        ConfigError: an actor has no group or two, a group names no actor or an unknown one, or its actors have
            different spaces.
    """
    if wanted == "shared":
        named = {kind: [name for name, its in actors.actors.items() if its == kind] for kind in actors.kinds}
    elif isinstance(wanted, str):
        named = {name: [name] for name in actors.names}
    else:
        named = {name: list(members) for name, members in wanted.items()}
        _check_members(actors, named)
    return [
        Group(name, actors.actors[members[0]], tuple(actors.names.index(member) for member in members))
        for name, members in named.items()
    ]


def _check_members(actors: ActorId, named: dict[str, list[str]]) -> None:
    known = ", ".join(actors.names)
    home: dict[str, str] = {}
    for group, members in named.items():
        if not group or "." in group or "/" in group:
            raise ConfigError(f"the group's name {group!r} must be text without '/' and '.'", _WHERE)
        if not members:
            raise ConfigError(f"the group {group!r} names no actor", _WHERE, f"The actors are {known}.")
        for actor in members:
            if actor not in actors.actors:
                raise ConfigError(f"the group {group!r} names the unknown actor {actor!r}", _WHERE, _are(known))
            if actor in home:
                raise ConfigError(f"the actor {actor!r} is in two groups, {home[actor]!r} and {group!r}", _WHERE)
            home[actor] = group
        other = next((each for each in members if actors.actors[each] != actors.actors[members[0]]), None)
        if other is not None:
            raise ConfigError(
                f"the actors {members[0]!r} and {other!r} of the group {group!r} have different spaces, so they "
                "cannot share a network",
                _WHERE,
                "Give each its own group.",
            )
    missing = next((actor for actor in actors.names if actor not in home), None)
    if missing is not None:
        raise ConfigError(f"the actor {missing!r} has no group", _WHERE, _are(known))


def _are(known: str) -> str:
    return f"The actors are {known}."


def group_spaces(
    group: Group, observation_space: Space[Any], action_space: Space[Any], one_hot: bool
) -> tuple[Space[Any], Space[Any]]:
    """Return the spaces of a group's policy: those of its kind, what critics see, and who acts with `one_hot`.

    Raises:
        ConfigError: the environment's spaces have no part for the kind.
    """
    parts = []
    for space in (observation_space, action_space):
        part = space.spaces.get(group.kind) if isinstance(space, spaces.Dict) else None
        if part is None:
            raise ConfigError(f"the environment has no spaces for the actors of the kind {group.kind!r}", "env")
        parts.append(part)
    seen, action = parts
    more: dict[str, Space[Any]] = {ONE_HOT: spaces.Discrete(len(group.actors))} if one_hot else {}
    if isinstance(observation_space, spaces.Dict) and CRITIC in observation_space.spaces:
        more[CRITIC] = observation_space[CRITIC]
    if not more:
        return seen, action
    own = members_of(seen)
    if both := own.keys() & more.keys():
        raise ConfigError(f"the actors of the kind {group.kind!r} observe a key {min(both)!r}, which is taken", "env")
    return spaces.Dict({**own, **more}), action


def members_of(space: Space[Any]) -> dict[str, Space[Any]]:
    """Return an observation space as the members of a Dict with the same leaves."""
    if isinstance(space, spaces.Dict):
        return dict(space.spaces)
    if isinstance(space, spaces.Tuple):
        return {str(index): child for index, child in enumerate(space.spaces)}
    return {"observation": space}
