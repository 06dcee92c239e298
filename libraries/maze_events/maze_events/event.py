"""Events that environments and wrappers report while an episode runs, and what is computed from them at its end.

class Shop(gymnasium.Env):
    def __init__(self):
        self.events = Events({"sale": ["sum", "max"], "refusal": ["count"]})

    def step(self, action):
        self.events.report("sale", price)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np

from maze_core.base.errors import ConfigError
from maze_core.base.saved_state import Each, Entries, Number, Text
from maze_events.histograms import HISTOGRAM, Histogram

STEP = ("count", "sum", "mean", "min", "max")
EPISODE = (*STEP, "histogram")
EPOCH = ("sum", "mean", "min", "max", "histogram")
_MOST = 1000
"""Most events that one object declares, most pairs of event and actor that it reports, and most KPIs."""
_LONGEST = 100
_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True, slots=True)
class Event:
    """How the values of an event are summarised.

    Args:
        episode: aggregators of an episode's values: count, sum, mean, min, max, histogram.
        epoch: aggregators of the episodes' numbers: sum, mean, min, max, histogram.
        step: count, sum, mean, min or max, if the values of a step become one value first; None: each value counts.
    """

    episode: Sequence[str] = ("sum",)
    epoch: Sequence[str] = ("mean",)
    step: str | None = None


class Tally:
    """Count, sum, extremes and, if asked for, the histogram of an event's values."""

    __slots__ = ("count", "high", "histogram", "low", "sum")

    def __init__(self, histogram: bool = False) -> None:
        self.count, self.sum, self.low, self.high = 0, 0.0, math.inf, -math.inf
        self.histogram = Histogram() if histogram else None

    def add(self, value: float) -> None:
        """Add a value."""
        self.count += 1
        self.sum += value
        self.low, self.high = min(self.low, value), max(self.high, value)
        if self.histogram is not None:
            self.histogram.add(value)

    def value(self, aggregator: str) -> float:
        """Return the result of an aggregator of `STEP`; nan if it needs values and there are none."""
        if aggregator == "count":
            return float(self.count)
        if aggregator == "sum":
            return self.sum
        if not self.count:
            return math.nan
        return {"mean": self.sum / self.count, "min": self.low, "max": self.high}[aggregator]


_Tallies = dict[tuple[str, str | None], Tally]
"""By event and actor; None: all reports of the event."""


class EpisodeEvents:
    """What was reported in an episode: the argument of the function that computes KPIs.

    `actor` None means all reports of the event, with and without actors.
    """

    def __init__(self, tallies: Mapping[tuple[str, str | None], Tally], length: int) -> None:
        self._tallies = tallies
        self.length = length
        """Steps of the episode."""

    def count(self, name: str, actor: str | None = None) -> int:
        """Return how often the event was reported."""
        return self._of(name, actor).count

    def sum(self, name: str, actor: str | None = None) -> float:
        """Return the sum of its values, 0 without any."""
        return self._of(name, actor).sum

    def mean(self, name: str, actor: str | None = None) -> float:
        """Return the mean of its values, nan without any."""
        return self._of(name, actor).value("mean")

    def min(self, name: str, actor: str | None = None) -> float:
        """Return its least value, nan without any."""
        return self._of(name, actor).value("min")

    def max(self, name: str, actor: str | None = None) -> float:
        """Return its largest value, nan without any."""
        return self._of(name, actor).value("max")

    def actors(self, name: str) -> list[str]:
        """Return the actors for which the event was reported."""
        return sorted(actor for event, actor in self._tallies if event == name and actor is not None)

    def _of(self, name: str, actor: str | None) -> Tally:
        if (name, None) not in self._tallies:
            raise ValueError(f"event {name!r:.100} is not declared")
        return self._tallies.get((name, actor)) or Tally()


@dataclass(frozen=True, slots=True)
class EventSummary:
    """The statistics of one episode's events, which `Episode` carries."""

    values: dict[str, float] = field(default_factory=dict)
    """By name, such as `event/sale/sum` and `actor/left/event/sale/sum`; those that are unknown are missing."""
    epoch: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The aggregators over episodes of each of these names."""
    histograms: dict[str, Histogram] = field(default_factory=dict)
    """Of single values, such as `event/sale/histogram`."""

    def state(self) -> list[Any]:
        """Return it as plain values."""
        drawn = {name: histogram.state() for name, histogram in self.histograms.items()}
        return [dict(self.values), {name: list(each) for name, each in self.epoch.items()}, drawn]

    @classmethod
    def load(cls, state: Sequence[Any]) -> EventSummary:
        """Return the summary whose `state()` this is."""
        values, epoch, drawn = state
        histograms = {name: Histogram.load(each) for name, each in drawn.items()}
        return cls(values, {name: tuple(each) for name, each in epoch.items()}, histograms)


EVENTS = [Entries(Number(finite=False)), Entries(Each(Text(EPOCH))), Entries(HISTOGRAM)]
"""The form of the result of `EventSummary.state` in a saved state."""


class Events:
    """The events of one environment or wrapper: kept as its attribute `events`, made in its constructor.

    Whoever steps the environment in a run finds it there, takes the statistics at the end of each episode and clears
    it after each reset, so what a reset reports does not count.

    Args:
        declared: each event's name and how it is summarised: an `Event`, or only its aggregators of an episode.
        kpis: computes key performance indicators at the end of an episode, numbers by name; nan: unknown.

    Raises:
        ConfigError: a name or an aggregator is unknown, or there are more than 1,000 events.
    """

    def __init__(
        self,
        declared: Mapping[str, Event | Sequence[str]],
        kpis: Callable[[EpisodeEvents], Mapping[str, float]] | None = None,
    ) -> None:
        self.declared = _checked(declared)
        self.listener: Callable[[str, float, str | None], None] | None = None
        """Called with each report, for whoever shows single ones."""
        self._kpis = kpis
        self._reduced = {name: each.step for name, each in self.declared.items() if each.step is not None}
        self._known: set[tuple[str, str | None]] = set()
        self.clear()

    @property
    def by_step(self) -> bool:
        """True if `end_step` must be called after each step."""
        return bool(self._reduced)

    def report(self, name: str, value: float = 1.0, actor: str | None = None) -> None:
        """Report an event.

        Args:
            name: a declared event.
            value: a finite number within float32's range.
            actor: to whom it happened; None: to nobody in particular.

        Raises:
            ValueError: the name is not declared, or the value or the actor is not of this kind.
        """
        if not isinstance(name, str) or name not in self.declared:
            raise ValueError(f"event {name!r:.100} is not declared; declared are {_listed(self.declared)}")
        number = _number(value, f"event {name!r}")
        if actor is not None and (not isinstance(actor, str) or (name, actor) not in self._known):
            self._meet(name, actor)
        where = self._step if name in self._reduced else self._tallies
        for whom in (None,) if actor is None else (None, actor):
            tally = where.get((name, whom))
            if tally is None:
                tally = where[name, whom] = self._empty(name)
            tally.add(number)
        if self.listener is not None:
            self.listener(name, number, actor)

    def clear(self) -> None:
        """Forget what was reported: an episode begins."""
        self._tallies: _Tallies = {(name, None): self._empty(name) for name in self.declared}
        self._step: _Tallies = {}

    def end_step(self) -> None:
        """Reduce the values of a step to one, where declared so."""
        step, self._step = self._step, {}
        for (name, actor), tally in step.items():
            target = self._tallies.setdefault((name, actor), self._empty(name))
            target.add(tally.value(self._reduced[name]))

    def take(self, length: int) -> tuple[EventSummary, dict[str, float]]:
        """Return the statistics and the KPIs of an episode of so many steps, and clear it.

        Raises:
            ValueError: the function of the KPIs does not return numbers by name.
            Exception: whatever it raises.
        """
        self.end_step()
        tallies = self._tallies
        kpis = {} if self._kpis is None else _kpis(self._kpis(EpisodeEvents(tallies, length)))
        summary = EventSummary()
        for (name, actor), tally in tallies.items():
            place = f"event/{name}" if actor is None else f"actor/{actor}/event/{name}"
            for aggregator in self.declared[name].episode:
                self._summarise(summary, f"{place}/{aggregator}", tally, aggregator, self.declared[name].epoch)
        self.clear()
        return summary, kpis

    def _summarise(self, summary: EventSummary, name: str, tally: Tally, aggregator: str, epoch: Sequence[str]) -> None:
        if aggregator == "histogram":
            if tally.histogram is not None and tally.count:
                summary.histograms[name] = tally.histogram
            return
        summary.epoch[name] = tuple(epoch)
        value = tally.value(aggregator)
        if not math.isnan(value):
            summary.values[name] = value

    def _empty(self, name: str) -> Tally:
        return Tally("histogram" in self.declared[name].episode)

    def _meet(self, name: str, actor: str) -> None:
        if not _is_name(actor) or "/" in actor:
            raise ValueError(f"event {name!r}: the actor {actor!r:.100} is no name without '/' of up to {_LONGEST}")
        if len(self._known) >= _MOST:
            raise ValueError(f"event {name!r}: there are more than {_MOST:,} pairs of event and actor")
        self._known.add((name, actor))


def _checked(declared: Any) -> dict[str, Event]:
    if not isinstance(declared, Mapping) or len(declared) > _MOST:
        raise ConfigError(f"events are declared by a mapping of at most {_MOST:,} names, got {declared!r:.80}", "env")
    return {name: _event(name, event) for name, event in declared.items()}


def _event(name: Any, event: Any) -> Event:
    if not _is_name(name):
        raise ConfigError(f"an event's name is printable text of up to {_LONGEST} characters, got {name!r:.120}", "env")
    if not isinstance(event, Event):
        event = Event(event)
    for what, given, known in (("episode", event.episode, EPISODE), ("epoch", event.epoch, EPOCH)):
        if isinstance(given, str) or not isinstance(given, Sequence) or not set(given) <= set(known):
            raise ConfigError(f"event {name!r}: {what} must be a list of {_listed(known)}, got {given!r:.80}", "env")
    if event.step is not None and event.step not in STEP:
        raise ConfigError(f"event {name!r}: step must be None or one of {_listed(STEP)}, got {event.step!r:.80}", "env")
    return Event(tuple(event.episode), tuple(event.epoch), event.step)


def _kpis(given: Any) -> dict[str, float]:
    if not isinstance(given, Mapping) or len(given) > _MOST or not all(map(_is_name, given)):
        raise ValueError(f"they must be a mapping of at most {_MOST:,} names to numbers, got {given!r:.80}")
    known = {name: value for name, value in given.items() if not (isinstance(value, Real) and math.isnan(value))}
    return {name: _number(value, f"KPI {name!r}") for name, value in known.items()}


def _number(value: Any, what: str) -> float:
    if isinstance(value, np.ndarray | np.generic) and value.ndim == 0:
        value = value.item()
    if not isinstance(value, Real):
        raise ValueError(f"{what} has a value that is not a number: {value!r:.80}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not abs(number) <= _LARGEST:
        raise ValueError(f"{what} has a value that is not finite: {value!r:.80}")
    return number


def _is_name(name: Any) -> bool:
    return isinstance(name, str) and 0 < len(name) <= _LONGEST and name.isprintable() and name.strip("/ ") == name


def _listed(names: Any) -> str:
    shown = list(names)[:10]
    return ", ".join(shown) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
