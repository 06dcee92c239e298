"""One whole episode: what is played, recorded, and added to replay. Its files are those of maze-recordings."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from maze_core.base.tree import Tree


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One episode of L steps."""

    obs: Tree
    """Leaves [L + 1, …]: the observation of each action, and the final observation."""
    actions: Tree
    """Leaves [L, …], in environment units as in all trees: discrete values count from 0."""
    rewards: np.ndarray
    """[L] float32, those of the environment, before the wrappers of a run."""
    terminated: bool
    truncated: bool
    """At most one of `terminated` and `truncated` is set; neither: the recording was interrupted."""
    episode_return: float
    """Sum of `rewards`, before they were rounded to float32."""
    seed: int | None = None
    """The seed passed to the environment's `reset`; None if unknown."""
    wrapped_rewards: np.ndarray | None = None
    """[L] float32, the rewards after the wrappers; None if they are not known."""

    def __len__(self) -> int:
        return len(self.rewards)
