"""Discounts of rows: gamma for each decision that lies between a row and the next one of its agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from maze_core.envs.actors import ELAPSED

if TYPE_CHECKING:
    from maze_core import Rollout


def rollout_discounts(rollout: Rollout, gamma: float) -> np.ndarray:
    """Return the factor of the value after each step, [T, N] float32: 0 where an episode terminated, else gamma.

    Where observations say what has elapsed, it is gamma to the power of the decisions between a row and the next one,
    or the final one where the episode was cut: 1 between the sub-steps of one decision.
    """
    factor: np.ndarray | float = gamma
    elapsed = rollout.obs.get(ELAPSED)
    if elapsed is not None:
        following = elapsed[1:].copy()
        for t, rows, final in rollout.truncations:
            following[t, rows] = final[ELAPSED]
        factor = gamma**following
    return np.where(rollout.terminated, 0.0, factor).astype(np.float32)


def carried_rows(rollout: Rollout) -> np.ndarray | None:
    """Return `carried` for all rows, [T, N] float32, nan where an action was chosen in the rollout; None: all were."""
    if rollout.carried is None or np.isnan(rollout.carried).all():
        return None
    rows = np.full(rollout.rewards.shape, np.nan, np.float32)
    rows[0] = rollout.carried
    return rows
