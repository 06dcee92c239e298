"""Rewards divided by the spread of returns, so that one learning rate suits environments of any reward scale."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from maze_core.data.discounts import rollout_discounts

if TYPE_CHECKING:
    from maze_core.data.rollout import Rollout

CLIP = 10.0
_SMALLEST_VARIANCE = 1e-8


class RewardScale:
    """Divides rewards by the running standard deviation of discounted returns and clips them to ±10.

    The return of a row is the discounted sum of the rewards of its episode so far, as in the reward scaling of Engstrom
    et al., "Implementation Matters in Deep Policy Gradients" (arXiv 2005.12729, section 3).

    Args:
        gamma: discount of a decision.
    """

    def __init__(self, gamma: float) -> None:
        self._gamma = gamma
        self._count, self._mean, self._squares = 0, 0.0, 0.0
        self._returns: np.ndarray | None = None

    def __call__(self, rollout: Rollout) -> None:
        """Add the rewards [T, N] of a rollout to the statistics, and scale them in place."""
        returns = self._discounted(rollout)[rollout.valid]
        if returns.size:
            self._observe(returns)
        rollout.rewards /= np.float32(self.deviation)
        np.clip(rollout.rewards, -CLIP, CLIP, out=rollout.rewards)

    @property
    def deviation(self) -> float:
        """The standard deviation of the returns so far; 1 before the first reward that differs from the others."""
        variance = self._squares / self._count if self._count else 0.0
        return float(np.sqrt(variance)) if variance > _SMALLEST_VARIANCE else 1.0

    def _discounted(self, rollout: Rollout) -> np.ndarray:
        """Return the returns so far [T, N] float64, and keep those of the last row for the next rollout."""
        steps, lanes = rollout.rewards.shape
        running = np.zeros(lanes) if self._returns is None else self._returns
        over = rollout.terminated | rollout.truncated
        discounts = np.where(over, 0.0, rollout_discounts(rollout, self._gamma))
        returns = np.empty((steps, lanes))
        for t in range(steps):
            # A waiting row keeps what its lane has; `running` is discounted already.
            running = running + np.where(rollout.valid[t], rollout.rewards[t], 0.0)
            returns[t] = running
            running = np.where(rollout.valid[t], running * discounts[t], running)
        self._returns = running
        return returns

    def _observe(self, returns: np.ndarray) -> None:
        """Merge the mean and the squared deviations of new returns [B] (Chan et al., 1979)."""
        count, mean = returns.size, float(returns.mean())
        total, difference = self._count + count, mean - self._mean
        self._squares += float(np.square(returns - mean).sum()) + difference**2 * self._count * count / total
        self._mean += difference * count / total
        self._count = total

    def state(self) -> dict[str, Any]:
        """Return the statistics and the running returns."""
        returns = None if self._returns is None else self._returns.copy()
        return {"count": self._count, "mean": self._mean, "squares": self._squares, "returns": returns}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`."""
        self._count, self._mean, self._squares = state["count"], state["mean"], state["squares"]
        self._returns = state["returns"]
