"""The strategy of the package `cma`, whose state is what it was told."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from maze_core import Purpose, varies
from maze_core.base.process_state import process_turn
from maze_core.base.saved_state import Array
from maze_core.base.seeding import integer_seed

_STREAM = zlib.crc32(b"maze-evolution")
_BUILDING, _DRAWING, _ADAPTING = range(3)


class Strategy:
    """Draws populations around a mean, and adapts mean and covariances to their values.

    A population depends on the seed, the first mean, and the values of those before, so nothing else is saved.
    Restoring replays them, which plays no episode.

    Args:
        mean: [d], where the search begins.
        stddev: of the first population.
        size: members of a population.
        seed: of the run.
        diagonal: adapt variances only.
    """

    def __init__(self, mean: np.ndarray, stddev: float, size: int, seed: int, *, diagonal: bool) -> None:
        self._first, self._stddev, self._size = np.asarray(mean, np.float64), stddev, size
        self._seed, self._diagonal = seed, diagonal
        self._begin()

    def _begin(self) -> None:
        from cma import CMAEvolutionStrategy  # takes a second to import

        self.values: list[np.ndarray] = []
        """Those of each population so far, [size] float64."""
        options = {"popsize": self._size, "CMA_diagonal": self._diagonal, "seed": np.nan, "verbose": -9}
        with self._chance(_BUILDING):
            self._strategy: Any = CMAEvolutionStrategy(self._first, self._stddev, options)
        self._population: list[np.ndarray] | None = None

    @contextmanager
    def _chance(self, purpose: int) -> Iterator[None]:
        """Seed numpy's global generator, which the package draws from, and restore it; silence its warnings."""
        seed = integer_seed(self._seed, Purpose.PLUGIN, _STREAM, len(self.values), purpose)
        with process_turn(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            before = np.random.get_state()
            np.random.seed(seed % 2**32)
            try:
                yield
            finally:
                np.random.set_state(before)

    @property
    def mean(self) -> np.ndarray:
        """The mean of the next population, [d] float64."""
        mean: np.ndarray = self._strategy.mean
        return mean

    @property
    def stddev(self) -> float:
        """The standard deviation of the next population's members around the mean: the root mean square of all d.

        The package's step size is none: scales and covariances, which multiply it, may drift the other way.
        """
        return float(np.sqrt(np.mean(np.square(self._strategy.stds))))

    def ask(self) -> np.ndarray:
        """Return the next population, [size, d] float64; the same until its values are told."""
        if self._population is None:
            with self._chance(_DRAWING):
                self._population = self._strategy.ask()
        return np.array(self._population)

    def tell(self, values: np.ndarray) -> None:
        """Adapt to the values [size] of the population; higher is better."""
        self.ask()
        with self._chance(_ADAPTING):
            self._strategy.tell(self._population, (-values).tolist())
        self._population = None
        self.values.append(np.array(values, np.float64))

    def state(self) -> dict[str, Any]:
        """Return the first mean and the values of all populations."""
        values = np.array(self.values).reshape(-1, self._size)
        return {"first": self._first, "values": varies(values, Array(values.dtype, (None, self._size)))}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`."""
        self._first = np.asarray(state["first"], np.float64)
        self._begin()
        for values in np.asarray(state["values"]):
            self.tell(values)
