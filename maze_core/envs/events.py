"""Events that environments and their wrappers report, as objects of maze-events in their attribute `events`.

That distribution is asked by entry point, and where an environment has such an attribute only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from inspect import getattr_static
from typing import Any

from maze_core.plugins.extensions import extension, installed

EVENTS = "maze.events"
"""The entry-point group: the functions here, and of several episodes `statistics`, `drawn`, `summary` and `form`."""


def asked(name: str) -> Any:
    """Return an object of the group. Raises ConfigError where no installed distribution has it."""
    return extension(EVENTS, name, "what reports events", "maze-events", "env")


def events_of(env: Any) -> list[Any]:
    """Return the events of an environment and its wrappers, from the outside in.

    Raises:
        ConfigError: two of them declare the same event.
    """
    there = any(attribute(layer, "events") is not None for layer in chain(env))
    find = installed(EVENTS, "events_of") if there else None
    return [] if find is None else find(env)


def check_separate(rows: Sequence[Sequence[Any]]) -> None:
    """Raise ConfigError if environments share an object, whose events would be mixed."""
    if any(rows):
        asked("check_separate")(rows)


def take(events: Sequence[Any], length: int, place: str) -> tuple[Any, dict[str, float]]:
    """Return the statistics and the KPIs, named `kpi/…`, of the episode that has just ended, and clear them.

    Raises:
        RunError: the KPIs cannot be computed; names the `place`.
    """
    return asked("take")(events, length, place) if events else (None, {})


def with_step_ends(step: Callable[[Any], Any], events: Sequence[Any]) -> Callable[[Any], Any]:
    """Return a `step` after which `end_step` is called where an event needs it; `step` itself where none does."""
    return asked("with_step_ends")(step, events) if events else step


def chain(env: Any) -> Iterator[Any]:
    """Yield an environment's layers from the outside in; no property of theirs is computed."""
    seen: set[int] = set()
    while env is not None and id(env) not in seen:
        seen.add(id(env))
        yield env
        env = attribute(env, "env")


def attribute(layer: Any, name: str) -> Any:
    """Return an attribute of a layer; None where there is none, or where it would be computed."""
    # A look into `layer.__dict__` would make all attributes of the layer slower from then on.
    if hasattr(getattr_static(type(layer), name, None), "__get__"):
        return None
    try:
        return getattr(layer, name, None)
    except Exception:  # noqa: BLE001 — whatever a `__getattr__` of others raises
        return None
