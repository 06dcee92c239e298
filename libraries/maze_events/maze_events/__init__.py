"""Events that environments and wrappers report, their statistics, and KPIs that are computed from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from maze_core.base.lazy_names import lazy_names

if TYPE_CHECKING:
    from maze_events.event import EpisodeEvents as EpisodeEvents
    from maze_events.event import Event as Event
    from maze_events.event import Events as Events
    from maze_events.histograms import Histogram as Histogram

_HOMES = {
    "EpisodeEvents": "maze_events.event",
    "Event": "maze_events.event",
    "Events": "maze_events.event",
    "Histogram": "maze_events.histograms",
}

__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
