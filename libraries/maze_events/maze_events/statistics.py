"""Statistics of the events of several episodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from maze_core.envs.vector import Episode
from maze_events.event import EventSummary
from maze_events.histograms import Histogram

_NUMBERS: dict[str, Callable[[np.ndarray], np.floating]] = {
    "sum": np.sum,
    "mean": np.mean,
    "min": np.min,
    "max": np.max,
}
_ADDED_UP = ("count", "sum")
# Aggregators that are 0 where nothing was reported; the others are unknown there.


def event_statistics(episodes: Sequence[Episode], prefix: str) -> dict[str, float]:
    """Return metrics such as `train/event/sale/sum_mean`: an aggregator of episodes applied to their statistics.

    Those without any value are missing.
    """
    found: dict[str, float] = {}
    for name, (values, aggregators) in _over_episodes(episodes).items():
        for aggregator in aggregators:
            if aggregator in _NUMBERS and len(values):
                with np.errstate(over="ignore"):
                    found[f"{prefix}/{name}_{aggregator}"] = float(_NUMBERS[aggregator](values))
    return found


def event_histograms(episodes: Sequence[Episode], prefix: str) -> dict[str, Histogram]:
    """Return histograms of single values (`…/histogram`) and of the episodes' statistics (`…/sum_histogram`)."""
    found: dict[str, Histogram] = {}
    for events in _reported(episodes):
        for name, histogram in events.histograms.items():
            found.setdefault(f"{prefix}/{name}", Histogram()).merge(histogram)
    for name, (values, aggregators) in _over_episodes(episodes).items():
        if "histogram" in aggregators and len(values):
            found[f"{prefix}/{name}_histogram"] = Histogram.of(values)
    return found


def _over_episodes(episodes: Sequence[Episode]) -> dict[str, tuple[np.ndarray, tuple[str, ...]]]:
    """Return the known values of each statistic, and its aggregators.

    An event that an actor did not report in an episode counts as 0 there, if the statistic is a count or a sum.
    """
    reported = _reported(episodes)
    aggregators = {name: each for events in reported for name, each in events.epoch.items()}
    found = {}
    for name in sorted(aggregators):
        unknown = 0.0 if name.rpartition("/")[2] in _ADDED_UP else np.nan
        values = np.array([events.values.get(name, unknown) for events in reported])
        found[name] = (values[~np.isnan(values)], aggregators[name])
    return found


def _reported(episodes: Sequence[Episode]) -> list[EventSummary]:
    return [episode.events for episode in episodes if episode.events is not None]
