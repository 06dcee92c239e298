"""Count, mean and spread of numbers that come one by one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(slots=True)
class RunningMoments:
    """Count, mean and sum of squared deviations of all numbers so far."""

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0

    def add(self, values: np.ndarray) -> None:
        """Add numbers of any shape, at least one (merged as in Chan, Golub and LeVeque 1979, eq. 2.1)."""
        count, mean = values.size, float(values.mean(dtype=np.float64))
        total, delta = self.count + count, mean - self.mean
        squares = float(np.square(values - mean, dtype=np.float64).sum())
        self.squares += squares + delta**2 * self.count * count / total
        self.mean += delta * count / total
        self.count = total

    @property
    def variance(self) -> float:
        """Mean squared deviation; 0 without numbers."""
        return self.squares / self.count if self.count else 0.0
