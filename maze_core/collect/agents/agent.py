"""The contract of agents: observations of N environments in, actions out, whatever chooses and changes them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np

    from maze_core.base.tree import Tree


class Choice(NamedTuple):
    """What an agent chose for N environments."""

    samples: Tree
    """Leaves [N, …], as an action distribution sampled them; the actions themselves where there is no distribution."""
    actions: Tree
    """Leaves [N, …], in environment units; discrete values count from 0."""


class Agent(ABC):
    """Acts for N environments at once, one row each: a trained network, a rule, or chance.

    What an agent remembers of an episode belongs to a row, and ends where the next episode of the row begins.
    """

    hears: bool = False
    """True: `hear` is called after every step."""

    def begin(self, rows: Sequence[int]) -> None:  # noqa: B027 — most agents remember nothing
        """Forget the episodes of these rows: new ones begin with the next observation."""

    def wait(self, rows: Sequence[int] | np.ndarray) -> None:  # noqa: B027 — as above
        """Forget the last observation of these rows: they were not theirs to act on."""

    def refresh(self) -> None:  # noqa: B027 — most agents have no network
        """Look at the network anew. To be called where modules may have been exchanged, not for new parameters."""

    def expect(self, steps: int) -> None:  # noqa: B027 — most agents draw nothing ahead
        """Prepare for so many steps, which may be cheaper than step by step."""

    @abstractmethod
    def act(self, obs: Tree) -> Choice:
        """Choose an action for every row from observations with leaves [N, …], whose arrays are reused afterwards."""

    def hear(self, actions: Tree, rewards: np.ndarray) -> None:  # noqa: B027 — most agents look at observations alone
        """Take what came of the last choice: its actions, leaves [N, …], and the rewards as wrappers make them, [N]."""

    def beside(self, agent: Agent) -> Agent:
        """Return an agent that acts as another one does for a while, in this one's place; this one takes note."""
        return agent

    def state(self) -> dict[str, Any]:
        """Return what decides the next actions besides the parameters: memory and random states."""
        return {}

    def load_state(self, state: dict[str, Any]) -> None:  # noqa: B027 — the twin of `state`
        """Restore the result of `state()`."""


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
