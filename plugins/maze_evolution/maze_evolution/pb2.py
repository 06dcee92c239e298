"""Population-based bandits (Parker-Holder et al. 2020, arXiv 2002.02518) as a searcher: a model chooses for copies."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from typing import ClassVar

import numpy as np
from maze_sweep.searchers.base import Search, Searcher, Wait
from maze_sweep.searchers.space import Point, Range

from maze_core import ConfigError, PluginConfig
from maze_evolution.gaussian_process import fitted, upper_bound
from maze_evolution.population import Population, PopulationConfig

_MOST = 300
"""Newest observations that the model knows."""
_Bounds = Callable[[np.ndarray], np.ndarray]
_CANDIDATES, _ROUNDS, _NEAR = 512, 4, 64


class PB2Config(PopulationConfig):
    """The parameters of population-based bandits."""


class PopulationBasedBandits(Searcher):
    """Train a population in stretches; the worst go on from the best, with settings that a model of gains chooses."""

    Config: ClassVar[type[PluginConfig]] = PB2Config
    config: PB2Config
    alters: ClassVar[bool] = True

    def setup(self, search: Search) -> int:
        """Return the number of stretches of all members, or the fewer that the user asked for."""
        for path, dimension in search.space.items():
            if not isinstance(dimension, Range):
                hint = f"Next: {path}=1e-5..1e-2:log, or --searcher pbt"
                raise ConfigError("pb2 models numbers of a range, and this is a list", f"over.{path}", hint)
        self._ranges: dict[str, Range] = {path: each for path, each in search.space.items() if isinstance(each, Range)}
        self._all = Population(self.config, search)
        return self._all.begin("pb2")

    def ask(self, number: int) -> Point | Wait:
        """Return the member's settings; a copy gets new ones. Waits for the generation before."""
        return self._all.ask(number, lambda each, _: self._promising(each))

    def parent(self, number: int) -> int | None:
        """Return the stretch that one goes on from: its member's last one, or for one of the worst one of the best."""
        return self._all.parents.get(number)

    def until(self, number: int) -> float:
        """Return the end of the stretch."""
        return self._all.until(number)

    def tell(self, number: int, point: Point, value: float | None) -> None:
        """Receive the value of a stretch."""
        self._all.tell(number, point, value)

    def _promising(self, number: int) -> Point:
        """Return the settings with the highest upper confidence bound beside those that train at the same time."""
        size = self.config.population
        generation = number // size
        seen = self._seen(generation)
        kernel = fitted(*seen)
        pending = self._settings([each for each in range(generation * size, (generation + 1) * size) if each != number])
        rng = self._all.rng(number, "bound")

        def bounds(candidates: np.ndarray) -> np.ndarray:
            return upper_bound(kernel, seen, pending, candidates, float(generation))

        found = _highest(bounds, len(self._ranges), rng)
        return {path: each.drawn(float(share)) for (path, each), share in zip(self._ranges.items(), found, strict=True)}

    def _seen(self, generation: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return settings `[N, D]`, times `[N]` and gains `[N]`, of mean 0 and deviation 1, of the stretches so far.

        A gain is what a stretch's value exceeds that of the one that it went on from; in the first generation, in which
        all began alike, that of the worst.
        """
        population, size = self._all, self.config.population
        values = {number: value for number, value in population.values.items() if math.isfinite(value)}
        start = min((value for number, value in values.items() if number < size), default=0.0)
        gains: dict[int, float] = {}
        for number in sorted(values):
            parent = population.parents.get(number)
            before = start if parent is None else values.get(parent)
            if number // size < generation and before is not None:
                gains[number] = values[number] - before
        kept = list(gains)[-_MOST:]
        y = np.array([gains[number] for number in kept])
        spread = float(y.std()) if len(y) else 0.0
        times = np.array([number // size for number in kept], np.float64)
        return self._settings(kept), times, (y - y.mean()) / spread if spread > 0 else np.zeros(len(kept))

    def _settings(self, numbers: list[int]) -> np.ndarray:
        """Return the settings of trials in the unit cube, `[N, D]`, without those that have none yet."""
        points = [self._all.points[number] for number in numbers if number in self._all.points]
        rows = [[each.share(point[path]) for path, each in self._ranges.items()] for point in points]
        return np.array(rows, np.float64).reshape(len(rows), len(self._ranges))


def _highest(bounds: _Bounds, dimensions: int, rng: Random) -> np.ndarray:
    """Return a point of the unit cube, `[D]`, with a high bound: the best of many, and of some near it, in rounds."""
    candidates = np.array([[rng.random() for _ in range(dimensions)] for _ in range(_CANDIDATES)])
    best: np.ndarray = candidates[int(np.argmax(bounds(candidates)))]
    for step in range(_ROUNDS):
        width = 0.1 / 2**step
        near = np.array([[rng.gauss(float(each), width) for each in best] for _ in range(_NEAR)])
        near = np.concatenate([best[None], np.clip(near, 0.0, 1.0)])
        best = near[int(np.argmax(bounds(near)))]
    return best
