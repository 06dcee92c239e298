"""The base class of searcher plugins, which choose the points of a sweep and learn from the results."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from maze_core import PluginConfig
from maze_sweep.searchers.space import Point, Space


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


@dataclass(frozen=True, slots=True)
class Wait:
    """The answer to `ask` of a searcher that needs a value first: it is asked again when one was told."""


class Searcher(ABC):
    """A searcher plugin: returns the point of each trial, by number, and is told the trial's value.

    Order of calls: the constructor with its config, then `setup`. Trials are numbered from 0; several may run at once.
    An interrupted sweep sets up a new searcher, tells it every finished trial again, and continues.
    """

    Config: ClassVar[type[PluginConfig]] = PluginConfig
    foresees: ClassVar[bool] = False
    """True if points depend only on their number, so that a sweep can validate all of them before it starts."""

    def __init__(self, config: Any) -> None:
        self.config = config

    @abstractmethod
    def setup(self, search: Search) -> int:
        """Start or continue a search and return the number of trials.

        Raises:
            ConfigError: the searcher does not support the space or the number of trials.
        """

    @abstractmethod
    def ask(self, number: int) -> Point | Wait:
        """Return the point of a trial. The same number gives the same point, also after an interruption.

        `Wait()` if the values of trials that are under way are needed first; it must not block until they are there.
        """

    def parent(self, number: int) -> int | None:
        """Return the earlier trial whose runs this one's go on from, seed by seed; None: they begin anew.

        Called after `ask` has returned the trial's point. Weights and statistics are those of the earlier run's best
        checkpoint, as with `--init-from`.
        """
        return None

    def tell(self, number: int, point: Point, value: float | None) -> None:  # noqa: B027 — some do not learn
        """Receive the value of a trial, the mean over its seeds; None if any of them has none. May be called twice."""

    def prune(self, number: int, epoch: int, value: float) -> bool:
        """Receive the value after an epoch of the trial's first seed; return True to end the trial early."""
        return False

    def close(self) -> None:  # noqa: B027 — some hold nothing
        """Release what `setup` acquired; safe to call twice."""
