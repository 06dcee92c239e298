"""Which rows of replay a batch is made of: drawn uniformly, or by their priorities."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from maze_core import varies
from maze_core.base.saved_state import OrNone
from maze_offpolicy.replay.priorities import Priorities, tree_bytes

if TYPE_CHECKING:
    from maze_core import Sequences, Tree
    from maze_offpolicy.replay.buffer import ReplayBuffer
    from maze_offpolicy.replay.ring import Ring


@dataclass(slots=True)
class Drawn:
    """The rows of a batch."""

    slots: np.ndarray
    """[B] int64, slots of rows with a step."""
    extra: Tree = field(default_factory=dict)
    """Further leaves [B, …] of the batch's `extra`."""
    sequences: Sequences | None = None
    """How the rows follow each other, and what networks remember before them; None: they are single steps."""
    filler: np.ndarray | None = None
    """[B] bool, rows that stand in for ones that do not exist: their `reward` and `discount` are 0; None: there are
    none."""


class Selector(ABC):
    """Draws the rows of batches, and is told of every row that is written.

    A row has a number, counted from the first that was written; it lies in slot number % capacity of the buffer.
    """

    priorities: Priorities | None = None
    """What rows or sequences are drawn by; None: all are equally likely."""
    agents: int = 1
    """How many agents act in an environment, whose rows lie side by side. The buffer sets it before all else."""

    def attach(self, buffer: ReplayBuffer) -> None:
        """Remember the buffer, which is empty. Called once, and again if its capacity or its leaves change."""
        self.buffer = buffer

    def nbytes(self, capacity: int) -> int:
        """Return the bytes needed besides the rows of a buffer."""
        return 0

    @property
    def ready(self) -> bool:
        """True once there is something to draw."""
        return self.buffer.steps > 0

    @abstractmethod
    def draw(self, rng: np.random.Generator, count: int, beta: float = 0.0, stretch: int = 1) -> Drawn:
        """Return rows, drawn with replacement.

        Args:
            rng: random generator of the draw.
            count: B, the number of rows; the least number for sequences.
            beta: exponent of the importance weights; 1 makes up for all of the bias of priorities.
            stretch: the number of rows that follow each other.

        Raises:
            ValueError: there is nothing to draw, or it cannot be drawn that way.
        """

    def cleared(self, first: int, count: int) -> None:  # noqa: B027 — not all need to know
        """Take notice of `count` new rows from number `first` on, which have an observation and no step yet."""

    def stepped(self, agent_rows: np.ndarray, numbers: np.ndarray) -> None:  # noqa: B027
        """Take notice of steps. Their rows, and those of the observations that follow, are in the buffer.

        Args:
            agent_rows: [K], which environment or agent took each step.
            numbers: [K], the numbers of their rows.
        """

    def waiting(self, agent_rows: np.ndarray) -> None:  # noqa: B027
        """Take notice of agents, [K], at least one, that have acted and wait for others. Told after each step."""

    def recorded(self, numbers: np.ndarray) -> None:
        """Take notice of a recorded episode. Its steps have these row numbers, [L]; its last observation follows."""
        self.stepped(np.zeros(len(numbers), np.int64), numbers)

    def forget(self, agent_rows: Sequence[int] | np.ndarray) -> None:  # noqa: B027
        """Expect no step from the latest rows of these agents: other episodes begin there."""

    def restored(self, numbers: np.ndarray, has_step: np.ndarray) -> None:  # noqa: B027
        """Take notice of rows that were read from disk, [K]; `has_step`: [K] bool, those with a step."""

    # Saving

    def rings(self) -> Mapping[str, Ring]:
        """Return what is saved like the rows of the buffer, by a prefix of file names."""
        return {}

    def state(self) -> Any:
        """Return the rest of what decides the next draws, as a checkpoint stores it."""
        return None

    def check_state(self, state: Any) -> None:  # noqa: B027
        """Raise ConfigError if the result of `state()` does not fit to this selector. Called before rows are read."""

    def load_state(self, state: Any) -> None:  # noqa: B027
        """Restore the result of `state()`, after the rows."""


class Uniform(Selector):
    """Draws steps that are all equally likely, one by one or in stretches that follow each other."""

    def draw(self, rng: np.random.Generator, count: int, beta: float = 0.0, stretch: int = 1) -> Drawn:
        """Return steps. Where an episode ends within a stretch, the rest of the stretch begins elsewhere."""
        if stretch == 1:
            return Drawn(self._draw(rng, count))
        slots = self._draw(rng, -(-count // stretch))
        drawn = [slots]
        for _ in range(stretch - 1):
            slots = self.buffer.steps_of.following(slots)
            over = np.flatnonzero(self.buffer.steps_of.ahead[slots] == 0)
            if len(over):
                slots[over] = self._draw(rng, len(over))
            drawn.append(slots)
        return Drawn(np.concatenate(drawn)[:count])

    def _draw(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Return slots of steps: the few rows without a step are drawn again."""
        if self.buffer.steps == 0:
            raise ValueError("the replay buffer has no step to sample")
        size, ahead = len(self.buffer), self.buffer.steps_of.ahead
        slots: np.ndarray = rng.integers(size, size=count)
        idle = np.flatnonzero(ahead[slots] == 0)
        while len(idle):
            slots[idle] = rng.integers(size, size=len(idle))
            idle = idle[ahead[slots[idle]] == 0]
        return slots


class ByPriority(Selector):
    """Draws steps in proportion to their priorities (Schaul et al., arXiv 1511.05952).

    Batches have in `extra`, each [B]: `weight`, the importance weight, at most 1, and `slot`, for `priorities.update`.

    Args:
        exponent: alpha; 0: uniform, 1: in proportion to the error.
    """

    def __init__(self, exponent: float) -> None:
        self.exponent = exponent

    def attach(self, buffer: ReplayBuffer) -> None:
        """Begin without a step."""
        super().attach(buffer)
        self.priorities: Priorities = Priorities(buffer.capacity, self.exponent)

    def nbytes(self, capacity: int) -> int:
        """Return the bytes of the priorities."""
        return tree_bytes(capacity)

    def draw(self, rng: np.random.Generator, count: int, beta: float = 0.0, stretch: int = 1) -> Drawn:
        """Return steps drawn by their priorities."""
        if stretch > 1:
            raise ValueError("prioritised steps are drawn one by one")
        if self.buffer.steps == 0:
            raise ValueError("the replay buffer has no step to sample")
        slots = self.priorities.draw(rng, count)
        return Drawn(slots, {"weight": self.priorities.weights(slots, beta), "slot": slots})

    def cleared(self, first: int, count: int) -> None:
        """Never draw rows without a step."""
        self.priorities.remove((first + np.arange(count)) % self.buffer.capacity)

    def stepped(self, agent_rows: np.ndarray, numbers: np.ndarray) -> None:
        """Give new steps the largest priority so far."""
        self.priorities.add(numbers % self.buffer.capacity)

    def restored(self, numbers: np.ndarray, has_step: np.ndarray) -> None:
        """Give them the largest priority; `load_state` knows better."""
        slots = numbers % self.buffer.capacity
        self.priorities.add(slots[has_step])
        self.priorities.remove(slots[~has_step])

    def state(self) -> dict[str, Any]:
        """Return the priorities of all rows, and the largest so far."""
        state = self.priorities.state(self.buffer.oldest, self.buffer.rows)
        return varies(state, OrNone(state))

    def load_state(self, state: dict[str, Any] | None) -> None:
        """Restore the result of `state()`. With None the steps keep the largest priority, that of new ones."""
        if state is not None:
            self.priorities.load_state(state)
            self.priorities.remove(np.flatnonzero(self.buffer.steps_of.ahead == 0))
            if self.buffer.steps and not self.priorities.total:
                raise ValueError("none of its steps has a priority")
