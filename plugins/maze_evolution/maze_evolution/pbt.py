"""Population-based training (Jaderberg et al., arXiv 1711.09846) as a searcher: the worst go on from the best."""

from __future__ import annotations

from random import Random
from typing import Annotated, Any, ClassVar

from maze_sweep.searchers.base import Search, Searcher, Wait
from maze_sweep.searchers.space import Choices, Dimension, Point
from pydantic import Field

from maze_core import ConfigError, PluginConfig

_FIXED = ("model", "env", "wrappers")
"""Parts that a run and the one it goes on from have in common."""
_WORST = float("-inf")


class PBTConfig(PluginConfig):
    """The parameters of population-based training."""

    population: Annotated[int, Field(ge=2, le=10_000)] = 8
    """Members, of which each trains in every generation. A trial is a member's stretch of training."""
    quantile: Annotated[float, Field(gt=0, le=0.5)] = 0.25
    """Share of the members that are replaced after each generation, by copies of as many best ones."""
    factor: Annotated[float, Field(gt=1, le=10)] = 1.25
    """By what a copy's numbers are multiplied or divided. In a list it takes a neighbour."""
    resample: Annotated[float, Field(ge=0, le=1)] = 0.1
    """Probability with which a copy's value is drawn anew from its list or range instead."""


class PopulationBasedTraining(Searcher):
    """Train a population in stretches; the worst go on from copies of the best, with settings changed a little."""

    Config: ClassVar[type[PluginConfig]] = PBTConfig
    config: PBTConfig

    def setup(self, search: Search) -> int:
        """Return the number of trials that the user asked for, as many for each generation as there are members."""
        if search.trials is None:
            members = self.config.population
            hint = f"Next: --trials {10 * members}, which are 10 stretches of each of {members} members"
            raise ConfigError("the number of stretches to train is missing", "--trials", hint)
        if wrong := [path for path in search.space if path.partition(".")[0] in _FIXED or path == "algorithm.name"]:
            raise ConfigError(
                "pbt cannot change what a run goes on from: all members have one environment, model and algorithm",
                f"over.{wrong[0]}",
                "Next: search it with --searcher random, or fix it with --set",
            )
        self._search = search
        self._points: dict[int, Point] = {}
        self._values: dict[int, float] = {}
        return search.trials

    def ask(self, number: int) -> Point | Wait:
        """Return the member's settings; those of a copy are changed. Waits for the generation before."""
        if number < self.config.population:
            self._points[number] = {
                path: _draw(each, self._rng(number, path)) for path, each in self._search.space.items()
            }
        elif self._ranked(number) is None:
            return Wait()
        else:
            parent, own = self.parent(number), number - self.config.population
            before = self._points[own if parent is None else parent]
            self._points[number] = before if parent == own else self._changed(number, before)
        return self._points[number]

    def parent(self, number: int) -> int | None:
        """Return the trial that a stretch goes on from: its member's last one, or for the worst one of the best."""
        ranked = self._ranked(number)
        if ranked is None:
            return None
        own, count = number - self.config.population, max(1, int(self.config.quantile * self.config.population))
        if own not in ranked[-count:] and self._values[own] > _WORST:
            return own
        best = [each for each in ranked[:count] if self._values[each] > _WORST]
        if not best:
            raise ConfigError("all members have failed, so there is none to go on from", "searcher", "See their logs.")
        return self._rng(number, "parent").choice(best)

    def tell(self, number: int, point: Point, value: float | None) -> None:
        """Receive the value of a stretch."""
        self._points[number] = point
        self._values[number] = _WORST if value is None else value if self._search.maximize else -value

    def _ranked(self, number: int) -> list[int] | None:
        """Return the trials of the generation before a trial's, the best first; None while one has no value."""
        first = (number // self.config.population - 1) * self.config.population
        generation = range(first, first + self.config.population)
        if first < 0 or any(each not in self._values for each in generation):
            return None
        return sorted(generation, key=lambda each: (-self._values[each], each))

    def _changed(self, number: int, point: Point) -> Point:
        changed = {}
        for path, dimension in self._search.space.items():
            rng = self._rng(number, path)
            anew = rng.random() < self.config.resample
            changed[path] = _draw(dimension, rng) if anew else _moved(dimension, point[path], self.config.factor, rng)
        return changed

    def _rng(self, number: int, purpose: str) -> Random:
        # A text as the seed is hashed by SHA-512, so neighbouring trials are independent.
        return Random(f"{self._search.seed}/{number}/{purpose}")


def _draw(dimension: Dimension, rng: Random) -> Any:
    return rng.choice(dimension.values) if isinstance(dimension, Choices) else dimension.at(rng.random())


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
