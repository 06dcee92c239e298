"""Rewards divided by the spread of returns, so that one learning rate suits environments of any reward scale."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from maze_core.data.discounts import rollout_discounts

if TYPE_CHECKING:
    from maze_core.data.rollout import Rollout

CLIP = 10.0
_SMALLEST_VARIANCE = 1e-8


@dataclass(slots=True)
class _Spread:
    """Running mean and squared deviations of values seen in parts (Chan et al., 1979)."""

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0

    def observe(self, values: np.ndarray) -> None:
        """Add values [B]; B may be 0."""
        if not values.size:
            return
        mean = float(values.mean())
        total, difference = self.count + values.size, mean - self.mean
        within = float(np.square(values - mean).sum())
        self.squares += within + difference**2 * self.count * values.size / total
        self.mean += difference * values.size / total
        self.count = total

    @property
    def deviation(self) -> float:
        """The standard deviation; 1 while there are no values that differ."""
        variance = self.squares / self.count if self.count else 0.0
        return float(np.sqrt(variance)) if variance > _SMALLEST_VARIANCE else 1.0


class RewardScale:
    """Divides rewards by the running standard deviation of discounted returns and clips them to ±10.

    The return of a row is the discounted sum of the rewards of its episode so far, as in the reward scaling of Engstrom
    et al., "Implementation Matters in Deep Policy Gradients" (arXiv 2005.12729, section 3). Agents with different
    networks have a scale for each network, since each agent has rewards of its own.

    Args:
        gamma: discount of a decision.
    """

    def __init__(self, gamma: float) -> None:
        self._gamma = gamma
        self._spreads: dict[int, _Spread] = {}
        self._returns: dict[int, np.ndarray] = {}
        """The discounted sum of the rewards of each lane's episode so far, [N] float64, by source."""

    def __call__(self, rollout: Rollout, source: int = 0) -> None:
        """Add the rewards [T, N] of a rollout to the statistics, and scale them in place.

        `source`: who stepped the environments; the rollouts of one source follow each other.
        """
        returns = self._discounted(rollout, source)
        groups = rollout.extra.get("group")
        for group in (0,) if groups is None else np.unique(groups).tolist():
            rows = np.ones_like(rollout.valid) if groups is None else groups == group
            spread = self._spreads.setdefault(group, _Spread())
            spread.observe(returns[rows & rollout.valid])
            rollout.rewards[rows] /= np.float32(spread.deviation)
        np.clip(rollout.rewards, -CLIP, CLIP, out=rollout.rewards)

    def _discounted(self, rollout: Rollout, source: int) -> np.ndarray:
        """Return the returns so far [T, N] float64, and keep those of the last row for the source's next rollout."""
        steps, lanes = rollout.rewards.shape
        running = self._returns.get(source, np.zeros(lanes))
        over = rollout.terminated | rollout.truncated
        discounts = np.where(over, 0.0, rollout_discounts(rollout, self._gamma))
        returns = np.empty((steps, lanes))
        for t in range(steps):
            # A waiting row keeps what its lane has; `running` is discounted already.
            running = running + np.where(rollout.valid[t], rollout.rewards[t], 0.0)
            returns[t] = running
            running = np.where(rollout.valid[t], running * discounts[t], running)
        self._returns[source] = running
        return returns

    def state(self) -> dict[str, Any]:
        """Return the statistics and the running returns."""
        return {
            "spreads": {group: asdict(spread) for group, spread in self._spreads.items()},
            "returns": dict(self._returns),
        }

    def load_state(self, state: dict[str, Any], episodes: bool = True) -> None:
        """Restore the result of `state()`; `episodes` False: the environments begin new ones."""
        self._spreads = {int(group): _Spread(**values) for group, values in state["spreads"].items()}
        self._returns = {int(source): returns for source, returns in state["returns"].items()} if episodes else {}
