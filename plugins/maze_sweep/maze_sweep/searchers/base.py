"""The base class of searcher plugins, which choose the points of a sweep and learn from the results."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from maze_core import ConfigError, PluginConfig
from maze_sweep.searchers.space import Point, Space

WORST = float("-inf")
"""The value of a failed trial, where more is better."""

Unit = Literal["steps", "epochs", "seconds"]


@dataclass(frozen=True, slots=True)
class Whole:
    """How far a run trains that nothing ends sooner: all that a line of trials, each from the one before, can take."""

    amount: float
    unit: Unit

    def share(self, share: float) -> float:
        """Return a part of it, from 0 to 1: at least one step, a whole number of them; seconds are not rounded."""
        part = self.amount * share
        return float(f"{part:.10g}") if self.unit == "seconds" else float(max(1, round(part)))


@dataclass(frozen=True, slots=True)
class Begun:
    """A trial that was asked for before the sweep was interrupted."""

    point: Point
    parent: int | None
    until: float | None


@dataclass(frozen=True, slots=True)
class Search:
    """A searcher's task."""

    space: Space
    """The dimensions by path."""
    seed: int
    """The seed of the searcher's random numbers."""
    trials: int | None
    """Points to try; None: all, if the searcher knows how many there are."""
    maximize: bool
    """True if higher values are better."""
    folder: Path
    """The sweep's folder, for the searcher's own files; for a searcher that `foresees` it does not exist yet."""
    whole: Whole | None = None
    """How far the runs train: by `steps`, else by epochs, else by `max_time`; None: their end is open."""
    begun: Sequence[Begun] = ()
    """The trials that were asked for before an interruption, by number. They stay as they are."""

    def divided(self, name: str, example: str) -> Whole:
        """Return how far the runs train, for the searcher `name` that divides it; `example`: how to say it.

        Raises:
            ConfigError: their end is open.
        """
        if self.whole is None:
            hint = f"Next: --steps {example}; or --epochs, or --set max_time=1h"
            raise ConfigError(f"{name} divides how far runs train, and their end is open", "--steps", hint)
        return self.whole

    def signed(self, value: float | None) -> float:
        """Return a value so that more is better; a failed trial is worse than all."""
        return WORST if value is None else value if self.maximize else -value


@dataclass(frozen=True, slots=True)
class Wait:
    """The answer to `ask` of a searcher that needs a value first: it is asked again when one was told."""


@dataclass(frozen=True, slots=True)
class Done:
    """The answer to `ask` of a searcher that is `open_ended`: there is no further trial."""


class Searcher(ABC):
    """A searcher plugin: returns the point of each trial, by number, and is told the trial's value.

    Order of calls: the constructor with its config, then `setup`. Trials are numbered from 0; several may run at once.
    An interrupted sweep sets up a new searcher, tells it every finished trial again, and continues.
    """

    Config: ClassVar[type[PluginConfig]] = PluginConfig
    foresees: ClassVar[bool] = False
    """True if points depend only on their number, so that a sweep can validate all of them before it starts."""
    open_ended: ClassVar[bool] = False
    """True if `setup` cannot tell the number of trials, only about how many there will be: `ask` says `Done()`."""
    alters: ClassVar[bool] = False
    """True if a trial may go on from one with another point: which values a fork can change is tried at the start."""

    def __init__(self, config: Any) -> None:
        self.config = config

    @abstractmethod
    def setup(self, search: Search) -> int:
        """Start or continue a search and return the number of trials.

        Raises:
            ConfigError: the searcher does not support the space or the number of trials.
        """

    @abstractmethod
    def ask(self, number: int) -> Point | Wait | Done:
        """Return the point of a trial. The same number gives the same point, also after an interruption.

        `Wait()` if the values of trials that are under way are needed first; it must not block until they are there.
        """

    def parent(self, number: int) -> int | None:
        """Return the earlier trial whose runs this one's go on from, seed by seed; None: they begin anew.

        Called after `ask` has returned the trial's point. Each run is a fork: it begins with the whole state of the
        other one at its end, optimizer, replay and random numbers included, and with its own point. What its value
        is made of came after that.
        """
        return None

    def until(self, number: int) -> float | None:
        """Return the budget at which the trial's runs pause, in the unit of `Search.whole`; None: they go to their end.

        Called after `parent`. It counts from the beginning of the line of trials, so it is larger than the parent's and
        at most the whole. Schedules, as of the learning rate, see the end of the runs, not the budget.
        """
        return None

    def length(self) -> float | None:
        """Return about how far all trials train together, each with one seed, in the unit of `Search.whole`.

        It tells how far the sweep is where trials differ in their budgets; None: all trials count alike.
        """
        return None

    def tell(self, number: int, point: Point, value: float | None) -> None:  # noqa: B027 — some do not learn
        """Receive the value of a trial, the mean over its seeds; None if any of them has none. May be called twice."""

    def prune(self, number: int, epoch: int, value: float) -> bool:
        """Receive the value after an epoch of the trial's first seed; return True to end the trial early."""
        return False

    def close(self) -> None:  # noqa: B027 — some hold nothing
        """Release what `setup` acquired; safe to call twice."""
