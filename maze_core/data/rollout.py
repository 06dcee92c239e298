"""Rollouts: T steps of N environments in preallocated arrays."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from maze_core.envs.vector import Episode
    from maze_core.tree import Tree


@dataclass(slots=True)
class Rollout:
    """T steps of N environments. The next rollout reuses the arrays."""

    obs: Tree
    """Leaves [T + 1, N, …]; row t is the observation of action t, row T the start of the next rollout."""
    actions: Tree
    """Leaves [T, N, …], as sampled by the distribution."""
    rewards: np.ndarray
    """[T, N] float32"""
    terminated: np.ndarray
    """[T, N] bool"""
    truncated: np.ndarray
    """[T, N] bool"""
    valid: np.ndarray
    """[T, N] bool; False where the environment produced a filler row, and behind a lane's last row"""
    truncations: list[tuple[int, np.ndarray, Tree]] = field(default_factory=list)
    """(t, env indices [K], following observations with leaves [K, …]) of the episodes cut by a time limit, and of the
    last rows of lanes with fewer than T"""
    episodes: list[Episode] = field(default_factory=list)
    """The episodes that ended, in order"""
    extra: Tree = field(default_factory=dict)
    """Values that plugins add to each step by name, leaves [T, N, …]; rows of a batch have them in `Batch.extra`"""
    memory: Tree = field(default_factory=dict)
    """What the policy remembers before row 0, leaves [N, …]; empty for a policy without memory"""

    carried: np.ndarray | None = None
    """[N] float32, log-probabilities of the actions of row 0 that were chosen before this rollout, with the parameters
    of that time; nan where row 0 began in this rollout. None where no action can be carried over."""

    @property
    def continues(self) -> np.ndarray:
        """[T, N] bool; True where the next row of the lane is valid and in the same episode. Row T - 1 counts too."""
        following: np.ndarray = ~(self.terminated | self.truncated)
        following[:-1] &= self.valid[1:]
        return following


def carried_rows(rollout: Rollout) -> np.ndarray | None:
    """Return `carried` for all rows, [T, N] float32, nan where an action was chosen in the rollout; None: all were."""
    if rollout.carried is None or np.isnan(rollout.carried).all():
        return None
    rows = np.full(rollout.rewards.shape, np.nan, np.float32)
    rows[0] = rollout.carried
    return rows
