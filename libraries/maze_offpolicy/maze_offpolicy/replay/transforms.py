"""Changes of replayed steps on their way into a batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from maze_core import Tree
    from maze_offpolicy.replay.buffer import ReplayBuffer


@dataclass(frozen=True, slots=True)
class Steps:
    """B sampled steps. Transforms change all but `slots` in place."""

    slots: np.ndarray
    """[B] int64, where they are in the buffer."""
    obs: Tree
    """Leaves [B, …]"""
    next_obs: Tree
    """Leaves [B, …]"""
    reward: np.ndarray
    """[B] float32"""
    terminated: np.ndarray
    """[B] bool"""


class Transform(ABC):
    """Changes single steps that were drawn, such as their goals or rewards."""

    def nbytes(self, capacity: int) -> int:
        """Return the bytes needed besides the rows of a buffer."""
        return 0

    @abstractmethod
    def apply(self, buffer: ReplayBuffer, rng: np.random.Generator, steps: Steps) -> None:
        """Change the steps in place.

        Args:
            buffer: that they were drawn from.
            rng: random generator of the draw.
            steps: those that were drawn.
        """
