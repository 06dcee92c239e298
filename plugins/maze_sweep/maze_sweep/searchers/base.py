"""The base of searcher plugins: what chooses the points of a sweep, and learns from what came of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from maze_core.config.base import PluginConfig
from maze_sweep.searchers.space import Point, Space


@dataclass(frozen=True, slots=True)
class Search:
    """What a searcher is asked to do."""

    space: Space
    """The dimensions by path."""
    seed: int
    """Decides every random choice of the searcher."""
    trials: int | None
    """Points to try; None: all, where the searcher knows how many there are."""
    maximize: bool
    """Whether more is better."""
    folder: Path
    """The sweep's folder, for what the searcher keeps itself; it is not there yet where the searcher foresees."""


class Searcher(ABC):
    """A searcher plugin: answers with the point of each trial, by number, and hears the trial's value.

    Life: built with its config, then `setup`. Trials are numbered from 0; several may be under way at once. A sweep
    that was broken off sets up a new searcher, tells it again every trial that has ended, and goes on.
    """

    Config: ClassVar[type[PluginConfig]] = PluginConfig
    foresees: ClassVar[bool] = False
    """Whether points depend on their number alone, so that a sweep can validate all of them before it begins."""

    def __init__(self, config: Any) -> None:
        self.config = config

    @abstractmethod
    def setup(self, search: Search) -> int:
        """Take up a search, new or broken off. Returns how many trials there will be.

        Raises:
            ConfigError: the space or the number of trials does not suit this searcher.
        """

    @abstractmethod
    def ask(self, number: int) -> Point:
        """The point of a trial. The same number gives the same point, also after the sweep was broken off."""

    def tell(self, number: int, point: Point, value: float | None) -> None:  # noqa: B027 — some do not learn
        """Hear the value of a trial, the mean over its seeds; None where it failed. May be told twice."""

    def prune(self, number: int, epoch: int, value: float) -> bool:
        """Hear the value after an epoch of the trial's first seed; whether the trial is not worth going on with."""
        return False

    def close(self) -> None:  # noqa: B027 — some hold nothing
        """Release what `setup` acquired; safe to call twice."""
