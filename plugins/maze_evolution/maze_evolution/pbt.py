"""Population-based training (Jaderberg et al., arXiv 1711.09846) as a searcher: the worst go on from the best."""

from __future__ import annotations

from random import Random
from typing import Annotated, Any, ClassVar

from maze_sweep.searchers.base import Search, Searcher, Wait
from maze_sweep.searchers.random import drawn
from maze_sweep.searchers.space import Choices, Dimension, Point
from pydantic import Field

from maze_core import PluginConfig
from maze_evolution.population import Population, PopulationConfig


class PBTConfig(PopulationConfig):
    """The parameters of population-based training."""

    factor: Annotated[float, Field(gt=1, le=10)] = 1.25
    """By what a copy's numbers are multiplied or divided. In a list it takes a neighbour."""
    resample: Annotated[float, Field(ge=0, le=1)] = 0.1
    """Probability with which a copy's value is drawn anew from its list or range instead."""


class PopulationBasedTraining(Searcher):
    """Train a population in stretches; the worst go on from copies of the best, with settings changed a little."""

    Config: ClassVar[type[PluginConfig]] = PBTConfig
    config: PBTConfig
    alters: ClassVar[bool] = True

    def setup(self, search: Search) -> int:
        """Return the number of stretches of all members, or the fewer that the user asked for."""
        self._all = Population(self.config, search)
        return self._all.begin("pbt")

    def ask(self, number: int) -> Point | Wait:
        """Return the member's settings; those of a copy are changed. Waits for the generation before."""
        return self._all.ask(number, self._changed)

    def parent(self, number: int) -> int | None:
        """Return the stretch that one goes on from: its member's last one, or for one of the worst one of the best."""
        return self._all.parents.get(number)

    def until(self, number: int) -> float:
        """Return the end of the stretch."""
        return self._all.until(number)

    def tell(self, number: int, point: Point, value: float | None) -> None:
        """Receive the value of a stretch."""
        self._all.tell(number, point, value)

    def _changed(self, number: int, point: Point) -> Point:
        changed = {}
        for path, dimension in self._all.search.space.items():
            rng = self._all.rng(number, path)
            anew = rng.random() < self.config.resample
            changed[path] = drawn(dimension, rng) if anew else _moved(dimension, point[path], self.config.factor, rng)
        return changed


def _moved(dimension: Dimension, value: Any, factor: float, rng: Random) -> Any:
    """Return a value near another one, inside the dimension."""
    up = rng.random() < 0.5
    if isinstance(dimension, Choices):
        place = dimension.values.index(value) + (1 if up else -1)
        return dimension.values[min(max(place, 0), len(dimension.values) - 1)]
    moved = value * factor if up else value / factor
    if dimension.whole:
        moved = max(round(moved), value + 1) if up else min(round(moved), value - 1)
    return min(max(moved, dimension.low), dimension.high)
