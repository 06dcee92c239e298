"""Finds the events of an environment and its wrappers, and takes their statistics at the end of an episode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from maze_core.base.errors import ConfigError, RunError
from maze_core.envs.events import attribute, chain
from maze_events.event import Events, EventSummary


def events_of(env: Any) -> list[Events]:
    """Return the events of an environment and its wrappers, from the outside in.

    Raises:
        ConfigError: two of them declare the same event.
    """
    found: list[Events] = []
    for layer in chain(env):
        events = attribute(layer, "events")
        if _is_events(events) and events not in found:
            found.append(events)
    declared: set[str] = set()
    for events in found:
        if twice := sorted(declared & events.declared.keys()):
            raise ConfigError(f"two wrappers, or one and the environment, declare the event {twice[0]!r}", "env")
        declared |= events.declared.keys()
    return found


def events_of_rows(env: Any, rows: int) -> list[list[Events]]:
    """Return the events of each row of a natively vectorised environment.

    One of its layers keeps a list of N `Events` as `events`, or it consists of single environments, as gymnasium's
    SyncVectorEnv does.

    Raises:
        ConfigError: a list has another length.
    """
    found: list[list[Events]] = [[] for _ in range(rows)]
    for layer in chain(env):
        events = attribute(layer, "events")
        if isinstance(events, list | tuple) and events and all(map(_is_events, events)):
            if len(events) != rows:
                raise ConfigError(f"there are {len(events)} objects `events` for {rows} environments", "env")
            for row, each in zip(found, events, strict=True):
                row.append(each)
        singles = attribute(layer, "envs")
        if isinstance(singles, list | tuple) and len(singles) == rows:
            for row, single in zip(found, singles, strict=True):
                row.extend(events_of(single))
    check_separate(found)
    return found


def check_separate(rows: Sequence[Sequence[Events]]) -> None:
    """Raise ConfigError if environments share an object, whose events would be mixed."""
    seen: set[int] = set()
    for row in rows:
        if seen & {id(each) for each in row}:
            raise ConfigError(
                "several environments share one object `events`", "env", "Make it in the environment's constructor."
            )
        seen |= {id(each) for each in row}


def take(events: Sequence[Events], length: int, place: str) -> tuple[EventSummary | None, dict[str, float]]:
    """Return the statistics and the KPIs, named `kpi/…`, of the episode that has just ended, and clear them.

    Raises:
        RunError: the KPIs cannot be computed; names the `place`.
    """
    summary: EventSummary | None = None
    kpis: dict[str, float] = {}
    for each in events:
        try:
            own, computed = each.take(length)
        except Exception as exc:
            raise RunError(f"{place}: the KPIs raised {type(exc).__name__}: {exc}") from exc
        if summary is None:
            summary = own
        else:
            summary.values.update(own.values)
            summary.epoch.update(own.epoch)
            summary.histograms.update(own.histograms)
        kpis |= {f"kpi/{name}": value for name, value in computed.items()}
    return summary, kpis


def with_step_ends(step: Callable[[Any], Any], events: Sequence[Events]) -> Callable[[Any], Any]:
    """Return a `step` after which `end_step` is called where an event needs it; `step` itself where none does."""
    needing = [each for each in events if each.by_step]
    if not needing:
        return step

    def stepped(action: Any) -> Any:
        result = step(action)
        for each in needing:
            each.end_step()
        return result

    return stepped


def _is_events(found: Any) -> bool:
    return isinstance(found, Events)
