"""RLlib's algorithms: one class for each, all made from `RLlib` and named `RLlibTITLE`."""

from __future__ import annotations

from functools import cache
from typing import Any

from maze_rllib.base import RLlib
from maze_rllib.config import config_of
from maze_rllib.families import describe, family


def __getattr__(name: str) -> Any:
    """Return the class of an algorithm, such as `RLlibPPO`, to which entry points refer."""
    title = name.removeprefix("RLlib")
    if title == name:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return algorithm(title)


@cache
def algorithm(title: str) -> type[RLlib]:
    """Return the class of an algorithm of RLlib."""
    kind = family(title)
    facts: dict[str, Any] = {"Config": config_of(title), "defaults": kind.defaults, "__doc__": describe(title)}
    if kind.action_spaces is not None:
        facts["action_spaces"] = kind.action_spaces
    return type(f"RLlib{title}", (RLlib,), {**facts, "__module__": __name__})
