"""Exploration: changing some of an agent's actions, so that it sees more than its policy alone would show."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from maze_core.collect.agents.agent import Choice

if TYPE_CHECKING:
    from maze_core.base.tree import Tree


Change = Callable[[Choice, "Tree"], Choice]
"""Changes a choice by random numbers that were drawn before, leaves [N, …]. To be sent to other processes."""


class Exploration(ABC):
    """Changes the actions that a policy chose for N environments."""

    @abstractmethod
    def explore(self, obs: Tree, choice: Choice) -> Choice:
        """Return the actions to take. `obs`: what `choice` was made from, leaves [N, …]."""

    @property
    def change(self) -> Change | None:
        """What changes actions by the result of `ahead` just as `explore` does, where workers collect.

        None: what is drawn depends on observations or on more, and the environments are stepped in lockstep.
        """
        return None

    def ahead(self, steps: int, rows: int) -> Tree:
        """Draw the random numbers of the next steps of N = `rows` environments for `change`, leaves [steps, N, …]."""
        raise NotImplementedError(f"{type(self).__name__} draws step by step")

    def state(self) -> dict[str, Any]:
        """Return what decides the next changes, such as random states."""
        return {}

    def load_state(self, state: dict[str, Any]) -> None:  # noqa: B027 — the twin of `state`
        """Restore the result of `state()`."""
