"""Which actor a row belongs to: the leaves below `turn/` of environments in which several actors act."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gymnasium import Space, spaces

from maze_core.base.errors import ConfigError

TURN = "turn"
"""The part of an observation that says whose turn it is."""
ACTOR = "turn/actor"
"""The leaf with the number of the actor that acts next."""
ELAPSED = "turn/elapsed"
"""The leaf with the decisions between an agent's previous row and this one: 0 between the sub-steps of one decision."""
CRITIC = "critic"
"""The part of an observation that critics alone see."""


class ActorId(spaces.Discrete):
    """The number of an actor, in the order of `actors`.

    Args:
        actors: the name of each actor → its kind. Actors of one kind have equal spaces and share the leaves below the
            kind's key.
        seed: of `sample`.

    Raises:
        ConfigError: there is no actor, or a name is no text without `/` and `.`.
    """

    def __init__(self, actors: Mapping[str, str], seed: Any = None) -> None:
        if not actors:
            raise ConfigError("there is no actor", "env", "Declare at least one actor with its spaces.")
        for name in (*actors, *actors.values()):
            check_name(name)
        self.actors = dict(actors)
        super().__init__(len(self.actors), seed)

    @property
    def names(self) -> list[str]:
        """The names of the actors, by number."""
        return list(self.actors)

    @property
    def kinds(self) -> list[str]:
        """The kinds, in the order of their first actors."""
        return list(dict.fromkeys(self.actors.values()))

    def __repr__(self) -> str:
        return f"ActorId({self.actors})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ActorId) and list(self.actors.items()) == list(other.actors.items())

    __hash__ = None  # type: ignore[assignment]  # as every space


def actors_of(space: Space[Any]) -> ActorId | None:
    """Return the actors of an observation space; None where the environment has a single one."""
    turn = space.spaces.get(TURN) if isinstance(space, spaces.Dict) else None
    actor = turn.spaces.get("actor") if isinstance(turn, spaces.Dict) else None
    return actor if isinstance(actor, ActorId) else None


def check_name(name: object) -> None:
    """Raise ConfigError unless a name of an actor or a kind can be part of a leaf's key and of a metric's name."""
    if not isinstance(name, str) or not name or "/" in name or "." in name:
        raise ConfigError(f"the actor's name {name!r} must be text without '/' and '.'", "env")
    if name in (TURN, CRITIC):
        raise ConfigError(f"no actor may be called {name!r}", "env", "This name has a meaning in observations.")


def is_for_critics(key: str) -> bool:
    """Return True for the key of a leaf that critics alone see: `critic`, or below it."""
    return key == CRITIC or key.startswith(f"{CRITIC}/")


def acting_space(observation_space: Space[Any]) -> Space[Any]:
    """Return an observation space without what critics alone see."""
    if not isinstance(observation_space, spaces.Dict) or CRITIC not in observation_space.spaces:
        return observation_space
    return spaces.Dict({key: space for key, space in observation_space.spaces.items() if key != CRITIC})


def keys_below(kind: str, keys: Mapping[str, Any], single: str) -> dict[str, str]:
    """Return key in the environment's tree → key in the tree of a kind; `single`: that of its only leaf."""
    return {
        key: single if key == kind else key.removeprefix(f"{kind}/")
        for key in keys
        if key == kind or key.startswith(f"{kind}/")
    }


def own_actions(named: Mapping[str, str], kind: str) -> dict[str, str]:
    """Return what is named by action leaf for the actions of one kind, by the keys of its own action space."""
    return {key: named[full] for full, key in keys_below(kind, named, "action").items()}
