"""What follows a replayed step: discounted rewards, the factor of the bootstrap, and the row it is computed from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class StepColumns:
    """The columns of a ring of rows that say what follows each of them, [capacity] each."""

    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    ahead: np.ndarray
    """Rows to the next observation; 0: the row has no step."""
    elapsed: np.ndarray | None
    """Rounds that an observation comes after the one before; None: always one."""

    def following(self, slots: np.ndarray) -> np.ndarray:
        """Return the slots of the next observations; a row without a step leads to itself."""
        following: np.ndarray = (slots + self.ahead[slots]) % len(self.ahead)
        return following

    def factor(self, slots: np.ndarray, gamma: float) -> Any:
        """Return the discount of what follows before these observations: gamma to the power of what has elapsed."""
        return gamma if self.elapsed is None else gamma ** self.elapsed[slots]


def look_ahead(
    columns: StepColumns, slots: np.ndarray, gamma: float, n_step: int, left: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return n-step returns of B steps without their bootstrap (Sutton 1988), fewer where the episode ends earlier.

    Args:
        columns: of the rows.
        slots: [B], those of the steps.
        gamma: discount of a decision: of a step, unless observations say what has elapsed.
        n_step: rewards that are summed.
        left: [B], the most rewards of each step; None: as many as there are.

    Returns:
        The sums [B] float32; the factors of the bootstrap [B], 0 at termination and never at truncation; the slots of
        the observations it is computed from, [B]; and how many rewards were summed, [B] int64.
    """
    reward = np.zeros(len(slots), np.float32)
    discount, following = np.ones(len(slots), np.float32), slots.copy()
    summed = np.zeros(len(slots), np.int64)
    going = np.arange(len(slots))
    for k in range(n_step):
        here = following[going]
        following[going] = after = columns.following(here)
        summed[going] = k + 1
        if columns.elapsed is None:
            reward[going] += gamma**k * columns.reward[here]
            discount[going] = gamma ** (k + 1) * ~columns.terminated[here]
        else:
            reward[going] += discount[going] * columns.reward[here]
            discount[going] *= columns.factor(after, gamma) * ~columns.terminated[here]
        ends = columns.terminated[here] | columns.truncated[here] | (columns.ahead[after] == 0)
        if left is not None:
            ends |= left[going] == k + 1
        going = going[~ends]
        if not len(going):
            break
    return reward, discount, following, summed
