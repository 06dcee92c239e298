"""Transitions that are complete, wherever they go: into rollouts, replay or recordings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from maze_core import Tree


@dataclass(frozen=True, slots=True)
class Transitions:
    """Complete transitions of K different rows."""

    rows: np.ndarray
    """[K] int64, in order."""
    obs: Tree
    """Leaves [K, …]"""
    actions: Tree
    """Leaves [K, …], as they were given: samples, or in environment units."""
    rewards: np.ndarray
    """[K] float32, all until `following`."""
    terminated: np.ndarray
    """[K] bool"""
    truncated: np.ndarray
    """[K] bool"""
    following: Tree
    """Leaves [K, …]: what the agent acts on next, or the last observation of its episode."""

    info: Tree = field(default_factory=dict)
    """Leaves [K] float32: the numbers of `info` that the algorithm learns from, as told with `following`."""
    raw: np.ndarray | None = None
    """[K] float32, as `rewards` and before the run's wrappers; None where these are the same, or not kept."""

    @property
    def ended(self) -> np.ndarray:
        """[K] bool, True where nothing follows."""
        ended: np.ndarray = self.terminated | self.truncated
        return ended
