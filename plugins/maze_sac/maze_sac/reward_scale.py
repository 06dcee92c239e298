"""The scale of rewards by running statistics of discounted returns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from maze_core import varies
from maze_core.base.saved_state import Array

if TYPE_CHECKING:
    from collections.abc import Callable

    from maze_core.envs.vector import StepResult

_EPSILON = 1e-8


def reward_scale(variance: float, largest: float, bound: float) -> float:
    """Return the factor of rewards for which discounted returns have variance 1, or less where they exceed `bound`.

    Kim et al., arXiv 2604.04539: 1 / max(√(variance + ε), largest / bound).

    Args:
        variance: of discounted returns.
        largest: the largest size of one so far.
        bound: the largest size that one may have after scaling.
    """
    return 1.0 / max(float(np.sqrt(variance + _EPSILON)), largest / bound)


class RewardScale:
    """Running statistics of the discounted sums of past rewards in N environments.

    A sum is G' = gamma G + r, and begins at 0 with each episode.

    Args:
        rows: N.
        gamma: returns the discount factor of the moment.
        bound: the largest size of a return after scaling.
    """

    def __init__(self, rows: int, gamma: Callable[[], float], bound: float) -> None:
        self._gamma, self._bound = gamma, bound
        self._sums = np.zeros(rows)
        self._count, self._mean, self._m2, self._largest = np.zeros(4)
        # Sum of squared deviations from the mean.

    def seen(self, result: StepResult) -> None:
        """Take in the rewards of one step."""
        valid = result.valid if result.has_filler else slice(None)
        self._sums[valid] = self._gamma() * self._sums[valid] + result.reward[valid]
        sums = self._sums[valid]
        if len(sums):
            self._merge(len(sums), sums.mean(), np.square(sums - sums.mean()).sum())
            self._largest = max(self._largest, np.abs(sums).max())
        self._sums[result.final_indices] = 0.0

    def _merge(self, count: int, mean: float, m2: float) -> None:
        """Add the statistics of further sums (Chan, Golub and LeVeque 1979, eq. 2.1)."""
        total, delta = self._count + count, mean - self._mean
        self._m2 += m2 + delta**2 * self._count * count / total
        self._mean += delta * count / total
        self._count = total

    @property
    def factor(self) -> float:
        """The scale of rewards; 1 before the first step."""
        return reward_scale(self._m2 / self._count, self._largest, self._bound) if self._count else 1.0

    def state(self) -> dict[str, Any]:
        """Return the sums and their statistics."""
        numbers = np.array([self._count, self._mean, self._m2, self._largest])
        low = np.array([0.0, -np.inf, 0.0, 0.0])
        return {
            "sums": varies(self._sums.copy(), Array(self._sums.dtype, self._sums.shape)),
            "statistics": varies(numbers, Array(numbers.dtype, numbers.shape, low)),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`."""
        self._sums = np.array(state["sums"])
        self._count, self._mean, self._m2, self._largest = state["statistics"]
