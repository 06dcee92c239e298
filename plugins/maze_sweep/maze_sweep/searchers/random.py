"""The searcher `random`: draws points independently of each other."""

from __future__ import annotations

from random import Random
from typing import ClassVar

from maze_core import ConfigError
from maze_sweep.searchers.base import Search, Searcher
from maze_sweep.searchers.space import Choices, Dimension, Point


class RandomSearcher(Searcher):
    """Draw each value from its list or range, all alike; as good as it gets without learning from trials."""

    foresees: ClassVar[bool] = True

    def setup(self, search: Search) -> int:
        """Return the number of trials that the user asked for."""
        self._search = search
        return asked_for(search)

    def ask(self, number: int) -> Point:
        """Return a point drawn with the trial's own generator."""
        return drawn_point(self._search, number)


def asked_for(search: Search) -> int:
    """Return the number of trials that the user asked for.

    Raises:
        ConfigError: none was given.
    """
    if search.trials is None:
        raise ConfigError("the number of points to try is missing", "--trials", "Next: --trials 20")
    return search.trials


def drawn_point(search: Search, number: int) -> Point:
    """Return a point drawn for a trial."""
    # A text as the seed is hashed by SHA-512, so neighbouring trials are independent.
    return {path: drawn(each, Random(f"{search.seed}/{number}/{path}")) for path, each in search.space.items()}


def drawn(dimension: Dimension, generator: Random) -> object:
    """Return a value of a dimension, all of which are equally likely."""
    if isinstance(dimension, Choices):
        return generator.choice(dimension.values)
    return dimension.drawn(generator.random())
