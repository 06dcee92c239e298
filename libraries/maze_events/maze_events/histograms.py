"""Histograms that can be merged: counts in buckets whose bounds grow by a tenth, as TensorBoard's do."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from maze_core.base.saved_state import Count, Each, Number

_SMALLEST, _LARGEST, _GROWTH = 1e-12, 1e39, 1.1
_LOG = math.log(_GROWTH)
_MOST = math.floor(math.log(_LARGEST / _SMALLEST) / _LOG) + 1
"""The number of the last bucket."""


@dataclass(slots=True)
class Histogram:
    """How finite numbers are distributed: at most about 2,500 buckets, whatever is added.

    Bucket 0 holds zero and what is closer to it than 1e-12. Bucket k > 0 holds the numbers from `1e-12 * 1.1**(k - 1)`
    to below `1e-12 * 1.1**k`; bucket -k holds the same with the other sign.
    """

    buckets: Counter[int] = field(default_factory=Counter)
    total: float = 0.0
    """Sum of the numbers."""
    squares: float = 0.0
    """Sum of their squares."""
    low: float = math.inf
    high: float = -math.inf

    @classmethod
    def of(cls, values: Iterable[float] | np.ndarray) -> Histogram:
        """Return the histogram of numbers of any shape; numbers that are not finite are left out."""
        array = np.asarray(values if isinstance(values, np.ndarray) else list(values), np.float64).reshape(-1)
        array = array[np.isfinite(array)]
        found = cls()
        if len(array):
            sizes = np.clip(np.abs(array), _SMALLEST / _GROWTH, _LARGEST)
            places = np.maximum(np.floor(np.log(sizes / _SMALLEST) / _LOG).astype(np.int64) + 1, 0)
            which, counts = np.unique(np.where(array < 0, -places, places), return_counts=True)
            found.buckets = Counter(dict(zip(which.tolist(), counts.tolist(), strict=True)))
            found.total, found.squares = float(array.sum()), float(np.square(array).sum())
            found.low, found.high = float(array.min()), float(array.max())
        return found

    @property
    def count(self) -> int:
        """How many numbers there are."""
        return self.buckets.total()

    def add(self, value: float) -> None:
        """Add a finite number."""
        size = abs(value)
        place = 0 if size < _SMALLEST else math.floor(math.log(min(size, _LARGEST) / _SMALLEST) / _LOG) + 1
        self.buckets[-place if value < 0 else place] += 1
        self.total += value
        self.squares += value * value
        self.low, self.high = min(self.low, value), max(self.high, value)

    def merge(self, other: Histogram) -> None:
        """Add the numbers of another histogram."""
        self.buckets.update(other.buckets)
        self.total += other.total
        self.squares += other.squares
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)

    def bars(self) -> list[tuple[float, int]]:
        """Return the upper bound and the count of each bucket that is not empty, in ascending order."""
        return [(_upper(place), self.buckets[place]) for place in sorted(self.buckets)]

    def state(self) -> dict[str, Any]:
        """Return it as plain values."""
        pairs = [[place, count] for place, count in self.buckets.items()]
        return {"buckets": pairs, "sums": [self.total, self.squares, self.low, self.high]}

    @classmethod
    def load(cls, state: dict[str, Any]) -> Histogram:
        """Return the histogram whose `state()` this is."""
        return cls(Counter({int(place): int(count) for place, count in state["buckets"]}), *state["sums"])


_PLACES = Count(-_MOST, _MOST + 1)
_SUMS = [Number(), Number(0.0), Number(finite=False), Number(finite=False)]
HISTOGRAM = {"buckets": Each([_PLACES, Count(1)]), "sums": _SUMS}
"""The form of the result of `Histogram.state` in a saved state."""


def _upper(place: int) -> float:
    if place < 0:
        return -_SMALLEST * _GROWTH ** (-place - 1)
    return _SMALLEST * _GROWTH**place if place else _SMALLEST
