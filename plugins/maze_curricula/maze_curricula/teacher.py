"""The base class of teachers: they see finished episodes, and choose the parameters of the next ones."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from maze_core import Plugin

if TYPE_CHECKING:
    import numpy as np

    from maze_core.base.seeding import Values
    from maze_core.envs.vector import Episode
    from maze_curricula.space import Space


class Teacher(Plugin, ABC):
    """Chooses the parameters of the next episodes. An entry point of the group `maze.teachers` names the class.

    A new run calls `setup`, and then `next` and `see` in turn, once each epoch. What `state` returns is part of the
    checkpoint: with it and the random generator, which is saved for it, the next parameters have to be the same.
    """

    space: Space
    """The ranges of the parameters."""
    rng: np.random.Generator
    """All that a teacher draws comes from it."""

    def setup(self, space: Space, rng: np.random.Generator) -> None:
        """Begin. A subclass that refuses a space calls this first.

        Raises:
            ConfigError: the teacher cannot choose from this space.
        """
        self.space, self.rng = space, rng

    @abstractmethod
    def next(self, count: int) -> Sequence[Values]:
        """Return the parameters of so many episodes, each with a value for every name of the space."""

    def see(self, episodes: Sequence[Episode], metrics: Mapping[str, float]) -> None:
        """Learn from the episodes that ended in an epoch (`parameters`, `episode_return`, `metrics`), and its metrics.

        An episode may have begun with earlier parameters than those that `next` chose last.
        """

    def metrics(self) -> dict[str, float]:
        """Return numbers about the teacher itself, which are logged as `curriculum/NAME`."""
        return {}

    def state(self) -> dict[str, Any]:
        """Return what decides the next parameters, beside the random generator."""
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`."""
