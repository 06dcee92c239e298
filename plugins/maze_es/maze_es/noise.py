"""Search directions: standard normal vectors computed from a seed and an index."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_CHUNK = 4_000_000
"""Numbers in memory at once while directions are summed."""


class Noise:
    """Directions of `size` numbers. Direction i is the same in every process, and drawn without the previous ones.

    The generator is counter-based (Philox, Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3") with
    (seed, index) as its key: streams of different keys are independent and each has a period of 2^256, so no two
    directions overlap. It replaces a shared noise table, which takes memory once per machine and whose directions
    overlap.
    """

    def __init__(self, seed: int, size: int) -> None:
        self.seed, self.size = seed, size

    def rows(self, indices: Sequence[int]) -> np.ndarray:
        """Return the directions of some indices, float32 [n, size]."""
        rows: np.ndarray = np.empty((len(indices), self.size), np.float32)
        for row, index in zip(rows, indices, strict=True):
            key = np.array([self.seed, index], np.uint64)
            np.random.Generator(np.random.Philox(key=key)).standard_normal(dtype=np.float32, out=row)
        return rows

    def weighted_sum(self, indices: Sequence[int], weights: np.ndarray) -> np.ndarray:
        """Return the sum of weights[i] times direction indices[i], float32 [size]; memory does not grow with n."""
        total = np.zeros(self.size, np.float32)
        chunk = max(1, _CHUNK // self.size)
        for start in range(0, len(indices), chunk):
            part = slice(start, start + chunk)
            total += weights[part].astype(np.float32) @ self.rows(indices[part])
        return total
