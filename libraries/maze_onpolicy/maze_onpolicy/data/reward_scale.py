"""Rewards divided by the spread of returns, so that one learning rate suits environments of any reward scale."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
from maze_normalizers.running_moments import RunningMoments

from maze_core import Count, varies
from maze_core.base.saved_state import Array, Entries, Number
from maze_onpolicy.data.discounts import rollout_discounts
from maze_onpolicy.data.rounding import nearly_equal

if TYPE_CHECKING:
    from maze_core import Rollout

CLIP = 10.0
_SPREADS = Entries({"count": Count(), "mean": Number(), "squares": Number(0.0)}, Count())


class RewardScale:
    """Divides rewards by the running standard deviation of discounted returns and clips them to ±10.

    The return of a row is the discounted sum of the rewards of its episode so far, as in the reward scaling of Engstrom
    et al., "Implementation Matters in Deep Policy Gradients" (arXiv 2005.12729, section 3). Agents with different
    networks have a scale for each network, since each agent has rewards of its own.

    Args:
        gamma: discount of a decision, or what returns that of the moment.
    """

    def __init__(self, gamma: float | Callable[[], float]) -> None:
        self._gamma = gamma
        self._spreads: dict[int, RunningMoments] = {}
        self._returns: dict[int, np.ndarray] = {}
        """The discounted sum of the rewards of each column's episode so far, [N] float64, by source."""

    def __call__(self, rollout: Rollout, source: int = 0) -> None:
        """Add the rewards [T, N] of a rollout to the statistics, and scale them in place.

        `source`: who stepped the environments; the rollouts of one source follow each other.
        """
        returns = self._discounted(rollout, source)
        groups = rollout.extra.get("group")
        for group in (0,) if groups is None else np.unique(groups).tolist():
            rows = np.ones_like(rollout.valid) if groups is None else groups == group
            spread, seen = self._spreads.setdefault(group, RunningMoments()), returns[rows & rollout.valid]
            if seen.size:
                spread.add(seen)
            deviation = np.float32(np.sqrt(spread.variance))
            if deviation > 0 and not nearly_equal(spread.mean - deviation, spread.mean + deviation):
                rollout.rewards[rows] /= deviation
        np.clip(rollout.rewards, -CLIP, CLIP, out=rollout.rewards)

    def _discounted(self, rollout: Rollout, source: int) -> np.ndarray:
        """Return the returns so far [T, N] float64, and keep those of the last row for the source's next rollout."""
        steps, columns = rollout.rewards.shape
        running = self._returns.get(source, np.zeros(columns))
        over = rollout.terminated | rollout.truncated
        gamma = self._gamma() if callable(self._gamma) else self._gamma
        discounts = np.where(over, 0.0, rollout_discounts(rollout, gamma))
        returns = np.empty((steps, columns))
        for t in range(steps):
            # A waiting row keeps what its column has; `running` is discounted already.
            running = running + np.where(rollout.valid[t], rollout.rewards[t], 0.0)
            returns[t] = running
            running = np.where(rollout.valid[t], running * discounts[t], running)
        self._returns[source] = running
        return returns

    def state(self, columns: int | None = None) -> dict[str, Any]:
        """Return the statistics and the running returns. `columns`: N, of all sources, where known."""
        return {
            "spreads": varies({group: asdict(spread) for group, spread in self._spreads.items()}, _SPREADS),
            "returns": varies(dict(self._returns), Entries(Array(np.dtype(np.float64), (columns,)), Count())),
        }

    def load_state(self, state: dict[str, Any], episodes: bool = True) -> None:
        """Restore the result of `state()`. `episodes` False: the environments begin new ones."""
        self._spreads = {group: RunningMoments(**values) for group, values in state["spreads"].items()}
        self._returns = dict(state["returns"]) if episodes else {}
