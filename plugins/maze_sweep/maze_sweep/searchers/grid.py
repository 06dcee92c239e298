"""The searcher `grid`: every combination of the values."""

from __future__ import annotations

import math
from typing import ClassVar

from maze_core import ConfigError
from maze_sweep.searchers.base import Search, Searcher
from maze_sweep.searchers.space import Choices, Point


class GridSearcher(Searcher):
    """Try every combination of the values; the last path varies fastest."""

    foresees: ClassVar[bool] = True

    def setup(self, search: Search) -> int:
        """Count the combinations."""
        self._choices: dict[str, tuple[object, ...]] = {}
        for path, dimension in search.space.items():
            if not isinstance(dimension, Choices):
                low, high, scale = dimension.low, dimension.high, ":log" if dimension.log else ""
                raise ConfigError(
                    f"{low}..{high}{scale} is a range, but a grid needs values",
                    f"over.{path}",
                    f"Next: {path}={low}..{high}{scale}:5 for 5 of them, or --searcher random --trials 20",
                )
            self._choices[path] = dimension.values
        count = math.prod(map(len, self._choices.values()))
        if search.trials not in (None, count):
            raise ConfigError(
                f"the grid has {count} points, not {search.trials}",
                "--trials",
                "Next: leave --trials out, or --searcher random",
            )
        return count

    def ask(self, number: int) -> Point:
        """Return the combination given by the number's digits in the mixed base of the lists' lengths."""
        point: Point = {}
        for path, values in reversed(self._choices.items()):
            number, digit = divmod(number, len(values))
            point[path] = values[digit]
        return {path: point[path] for path in self._choices}
