"""The contract of planners: they choose actions by trying them out in copies of the environment."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from maze_core import take_rows

if TYPE_CHECKING:
    import numpy as np

    from maze_core import Tree
    from maze_planning.simulator import Simulator


@dataclass(frozen=True, slots=True)
class Decision:
    """An action that is to be chosen."""

    row: int
    """The row of the agent among all that are played at a time; a planner may remember an episode by it."""
    simulator: Simulator
    """The environment of the row. Copies of it can be stepped."""
    agent_row: int
    """The agent's row within the simulator; 0 in environments with one agent."""
    rng: np.random.Generator
    """The row's random numbers. Use no others, so that an episode does not depend on those beside it."""

    @property
    def obs(self) -> Tree:
        """What the agent sees, leaves [1, …]."""
        return take_rows(self.simulator.obs, slice(self.agent_row, self.agent_row + 1))


class Planner(ABC):
    """Chooses actions by looking ahead. The hook `build_planner` returns one, with the policy that it may ask.

    The same planner acts wherever the policy of a run does: in training, evaluations, rollouts, `maze view` and
    `RunContext.agent(env=env)`.
    """

    def begin(self, row: int) -> None:  # noqa: B027 — most planners remember nothing
        """Begin a new episode in a row: forget the previous one."""

    @abstractmethod
    def choose(self, decisions: Sequence[Decision], proposed: Tree) -> Tree:
        """Choose an action for each of K decisions.

        Args:
            decisions: one for each row that acts.
            proposed: what the policy would do, leaves [K, …].

        Returns:
            Leaves [K, …] in environment units; discrete values count from 0. Boxes are clipped to their bounds.
        """

    def state(self) -> dict[str, Any]:
        """Return its memory of unfinished episodes: nested dicts of plain values and arrays."""
        return {}

    def load_state(self, state: dict[str, Any]) -> None:  # noqa: B027 — the twin of `state`
        """Restore the result of `state()`."""
