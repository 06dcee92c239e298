"""Statistics of finished episodes, of their events, and of other values of an epoch."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from maze_core.base.errors import PluginError
from maze_core.base.metrics import as_number, deviation, mean
from maze_core.base.saved_state import Count, Each, Entries, Number, OrNone, check_state, varies
from maze_core.base.terminal_text import shown
from maze_core.envs.events import asked
from maze_core.envs.parameters import Plain
from maze_core.envs.vector import Episode

if TYPE_CHECKING:
    from maze_core.base.seeding import Values


class _Events:
    """The form of the events of an episode in a saved state."""

    def check(self, saved: Any, place: str) -> None:
        check_state(saved, asked("form"), place)


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
        **(asked("statistics")(episodes, prefix) if _reported(episodes) else {}),
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


def event_histograms(episodes: list[Episode], prefix: str) -> dict[str, Any]:
    """Return histograms of events, by metric name."""
    found: dict[str, Any] = asked("drawn")(episodes, prefix) if _reported(episodes) else {}
    return found


def _reported(episodes: list[Episode]) -> bool:
    return any(episode.events is not None for episode in episodes)


class EpochStatistics:
    """Collects the episodes finished in training and further values during one epoch."""

    def __init__(self) -> None:
        self._episodes: list[Episode] = []
        self._values: dict[str, list[float]] = {}
        self.closed = False
        """True from the report of an epoch to the beginning of the next: what is recorded then belongs to neither."""
        self.histograms: dict[str, Any] = {}
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
                number = value if type(value) is float else as_number(value)
                self._values.setdefault(str(name), []).append(number)
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
        events = asked("summary").load(events)
    return Episode(index, number, total, length, metrics, events, values)
