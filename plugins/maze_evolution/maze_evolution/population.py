"""A population that trains in stretches: who is replaced after each, and from whom each stretch goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Annotated

from maze_sweep.searchers.base import WORST, Search, Wait
from maze_sweep.searchers.random import drawn
from maze_sweep.searchers.space import Point
from pydantic import Field

from maze_core import ConfigError, PluginConfig

_FAR = "60000, which each member trains in all"


class PopulationConfig(PluginConfig):
    """How a population trains."""

    population: Annotated[int, Field(ge=2, le=10_000)] = 8
    """Members, of which each trains in every generation. A trial is a member's stretch of training."""
    generations: Annotated[int, Field(ge=2, le=10_000)] = 10
    """Stretches of each member: the steps (or epochs, or time) of a run are divided by it. After each stretch the worst
    members are replaced."""
    quantile: Annotated[float, Field(gt=0, le=0.5)] = 0.25
    """Share of the members that are replaced after each generation, by copies of as many best ones."""


@dataclass
class Population:
    """Trials by number: those of the first generation, of the second, and so on."""

    config: PopulationConfig
    search: Search
    points: dict[int, Point] = field(default_factory=dict)
    values: dict[int, float] = field(default_factory=dict)
    """More is better."""
    parents: dict[int, int | None] = field(default_factory=dict)

    def begin(self, name: str) -> int:
        """Take what an interrupted sweep has begun, and return the number of trials.

        Raises:
            ConfigError: the end of the runs is open or too near, or there are fewer trials.
        """
        config, search = self.config, self.search
        whole, total = search.divided(name, _FAR), config.population * config.generations
        ends = {whole.share((number + 1) / config.generations) for number in range(config.generations)}
        if len(ends) < config.generations:
            problem = f"{whole.amount:g} {whole.unit} are too few for {config.generations} generations"
            raise ConfigError(problem, "searcher.generations", f"Next: more {whole.unit}, or fewer generations")
        if search.trials is not None and search.trials > total:
            members = f"{config.population} members have {total} stretches in {config.generations} generations"
            hint = "Next: leave --trials out; fewer end the sweep early, and it can go on"
            raise ConfigError(f"{members}, not {search.trials}", "--trials", hint)
        for number, each in enumerate(search.begun):
            self.points[number], self.parents[number] = each.point, each.parent
        return search.trials or total

    def until(self, number: int) -> float:
        """Return the budget of a stretch: that of its generation."""
        config = self.config
        return self.search.divided("", _FAR).share((number // config.population + 1) / config.generations)

    def ask(self, number: int, changed: Callable[[int, Point], Point]) -> Point | Wait:
        """Return the settings of a stretch. Waits for the generation before.

        `changed`: called for a copy of another member with the number and the other's settings.
        """
        if number in self.points:
            return self.points[number]
        parent = None
        if number < self.config.population:
            point = self.drawn(number)
        elif self.ranked(number) is None:
            return Wait()
        else:
            parent = self.chosen(number)
            point = self.points[parent]
            if parent != number - self.config.population:
                point = changed(number, point)
        self.points[number], self.parents[number] = point, parent
        return point

    def tell(self, number: int, point: Point, value: float | None) -> None:
        """Receive the value of a stretch with these settings."""
        self.points.setdefault(number, point)
        self.values[number] = self.search.signed(value)

    def ranked(self, number: int) -> list[int] | None:
        """Return the trials of the generation before a trial's, the best first; None while one has no value."""
        first = (number // self.config.population - 1) * self.config.population
        generation = range(first, first + self.config.population)
        if first < 0 or any(each not in self.values for each in generation):
            return None
        return sorted(generation, key=lambda each: (-self.values[each], each))

    def chosen(self, number: int) -> int:
        """Return what a stretch goes on from: its member's last one, or for one of the worst one of the best.

        Raises:
            ConfigError: all have failed.
        """
        ranked = self.ranked(number) or []
        own, count = number - self.config.population, max(1, int(self.config.quantile * self.config.population))
        if own not in ranked[-count:] and self.values[own] > WORST:
            return own
        best = [each for each in ranked[:count] if self.values[each] > WORST]
        if not best:
            raise ConfigError("all members have failed, so there is none to go on from", "searcher", "See their logs.")
        return self.rng(number, "parent").choice(best)

    def rng(self, number: int, purpose: str) -> Random:
        """Return the random numbers of a trial for a purpose."""
        # A text as the seed is hashed by SHA-512, so neighbouring trials are independent.
        return Random(f"{self.search.seed}/{number}/{purpose}")

    def drawn(self, number: int) -> Point:
        """Return a new point for a trial."""
        return {path: drawn(each, self.rng(number, path)) for path, each in self.search.space.items()}
