"""Statistics of finished episodes, of their events, and of other values of an epoch."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from maze_core.base.errors import PluginError
from maze_core.base.metrics import as_number, deviation, mean
from maze_core.base.saved_state import Count, Each, Entries, Number, OrNone, check_state, varies
from maze_core.base.terminal_text import shown
from maze_core.envs.parameters import Plain
from maze_core.envs.vector import Episode

if TYPE_CHECKING:
    from maze_core.base.seeding import Values
    from maze_core.envs.events.event import EventSummary
    from maze_core.envs.events.histograms import Histogram
    from maze_core.envs.vector import Episode


class _Events:
    """The form of the events of an episode in a saved state."""

    def check(self, saved: Any, place: str) -> None:
        from maze_core.envs.events.event import EVENTS

        check_state(saved, EVENTS, place)


_ANY = Number(finite=False)
_VALUES = Entries(Each(_ANY))
_ROW = [Count(), Count(), _ANY, Count(), Entries(_ANY), OrNone(_Events()), OrNone(Entries(Plain()))]
"""The forms of the recorded values and of an episode in a saved state."""


def summarize(episodes: list[Episode], prefix: str) -> dict[str, float]:
    """Return metrics of episodes: returns, lengths, counts and means of reported values; nan without episodes."""
    returns = [e.episode_return for e in episodes]
    lengths = [e.length for e in episodes]
    nan = float("nan")
    names = sorted({name for e in episodes for name in e.metrics})
    return {
        f"{prefix}/return_mean": mean(returns),
        f"{prefix}/return_std": deviation(returns),
        f"{prefix}/return_min": min(returns, default=nan),
        f"{prefix}/return_max": max(returns, default=nan),
        f"{prefix}/length_median": statistics.median(lengths) if lengths else nan,
        f"{prefix}/episodes": float(len(episodes)),
        f"{prefix}/steps": float(sum(lengths)),
        **{f"{prefix}/{name}": mean([e.metrics[name] for e in episodes if name in e.metrics]) for name in names},
        **event_statistics(episodes, prefix),
    }


def by_parameters(episodes: list[Episode], prefix: str) -> dict[str, float]:
    """Return the mean return, and the rate of success, of the episodes with equal parameters of the environment."""
    groups: dict[str, list[Episode]] = {}
    for episode in episodes:
        if episode.parameters:
            label = ",".join(f"{name}={value}" for name, value in episode.parameters.items())
            groups.setdefault(label, []).append(episode)
    found = {}
    for label, its in groups.items():
        found[f"{prefix}/{label}/return_mean"] = mean([each.episode_return for each in its])
        if successes := [each.metrics["success"] for each in its if "success" in each.metrics]:
            found[f"{prefix}/{label}/success"] = mean(successes)
    return found


class EpochStatistics:
    """Collects the episodes finished in training and further values during one epoch."""

    def __init__(self) -> None:
        self._episodes: list[Episode] = []
        self._values: dict[str, list[float]] = {}
        self.closed = False
        """True from the report of an epoch to the beginning of the next: what is recorded then belongs to neither."""
        self.histograms: dict[str, Histogram] = {}
        """Those of the last epoch's events, by metric name."""
        self.finished: list[Episode] = []
        """The episodes of the last epoch."""

    def add(self, episodes: Iterable[Episode]) -> None:
        """Count finished episodes."""
        self._episodes.extend(episodes)

    def record(self, values: dict[str, float]) -> None:
        """Add values by metric name; the epoch reports the mean of those that are not nan.

        Raises:
            PluginError: one of them is not a number, or no epoch is under way.
        """
        if self.closed:
            raise PluginError(
                f"{', '.join(map(shown, values))} is recorded where no epoch is under way, so no logger would show it\n"
                "Next: return it from the hook on_metrics, which is called before an epoch is reported."
            )
        for name, value in values.items():
            try:
                self._values.setdefault(str(name), []).append(as_number(value))
            except TypeError:
                raise PluginError(f"the recorded metric {name!r} is {shown(value)}, not a number") from None

    def epoch_metrics(self) -> dict[str, float]:
        """Return the metrics since the last call."""
        metrics = summarize(self._episodes, "train")
        metrics |= {name: mean(values) for name, values in self._values.items()}
        self.histograms = event_histograms(self._episodes, "train")
        self.finished, self._episodes, self._values = self._episodes, [], {}
        return metrics

    def state(self) -> dict[str, Any]:
        """Return the values collected so far in an unfinished epoch."""
        return {
            "episodes": varies([_row(episode) for episode in self._episodes], Each(_ROW)),
            "values": varies({name: list(values) for name, values in self._values.items()}, _VALUES),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`."""
        self._episodes = [_episode(*row) for row in state["episodes"]]
        self._values = {name: list(values) for name, values in state["values"].items()}


def _row(episode: Episode) -> list[Any]:
    """Return an episode as plain values."""
    numbers = [episode.env_index, episode.episode_number, episode.episode_return, episode.length]
    events = None if episode.events is None else episode.events.state()
    return [*numbers, dict(episode.metrics), events, episode.parameters and dict(episode.parameters)]


def _episode(
    index: int, number: int, total: float, length: int, metrics: dict[str, float], events: Any, values: Values | None
) -> Episode:
    """Return the episode whose `_row` this is."""
    if events is not None:
        from maze_core.envs.events.event import EventSummary

        events = EventSummary.load(events)
    return Episode(index, number, total, length, metrics, events, values)


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
    reported = _reported(episodes)
    if not reported:
        return found
    from maze_core.envs.events.histograms import Histogram

    for events in reported:
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
