"""Joint steps drawn from replay: the rows of all agents of an environment step together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from maze_core import ConfigError
from maze_core.envs.spaces import LeafSpec, Specs, allocated_bytes
from maze_offpolicy.replay.selectors import Drawn, Selector
from maze_offpolicy.replay.sequence_index import RecordRing

if TYPE_CHECKING:
    from maze_offpolicy.replay.buffer import ReplayBuffer
    from maze_offpolicy.replay.ring import Ring

_ABSENT = -1
"""In the place of an offset: the agent took no part."""


class Joint(Selector):
    """Draws steps of environments, all equally likely, and returns the rows of all their agents, agent after agent.

    Of S steps with A agents a batch has S * A rows, so that its leaves reshape to [S, A, …]. Batches have in `extra`,
    each [B]: `agent`, its number in the order of the environment's agents, and `present`, False where the agent took no
    part in the step. Such a row is filler: it repeats that of another agent, and its `reward` and `discount` are 0.

    All agents that act must do so at the same time: the action of each ends with the step in which it was taken. With
    one agent each row is a joint step.

    Raises:
        ConfigError: while collecting, an agent waits for others; or recorded episodes are added where several agents
            act, which have the steps of one agent each.
    """

    def attach(self, buffer: ReplayBuffer) -> None:
        """Begin without a step."""
        super().attach(buffer)
        self.steps = RecordRing(_record(self.agents), buffer.capacity)
        """The joint steps. Whoever holds the first of their rows holds all."""
        self._low = 0
        """A number of a joint step below which none has all of its rows."""

    def nbytes(self, capacity: int) -> int:
        """Return the bytes of the joint steps."""
        return allocated_bytes(_record(self.agents), (capacity,))

    @property
    def ready(self) -> bool:
        """True once there is a joint step."""
        return self.steps.rows > 0

    # Writing

    def stepped(self, agent_rows: np.ndarray, numbers: np.ndarray) -> None:
        """Add the joint steps of some environments; agent rows are in order, those of an environment side by side."""
        environments, agent = np.divmod(agent_rows, self.agents)
        starts = np.flatnonzero(np.diff(environments, prepend=-1))
        first = np.minimum.reduceat(numbers, starts)
        step = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(agent_rows)))
        offsets = np.full((len(starts), self.agents), _ABSENT, np.int32)
        offsets[step, agent] = numbers - first[step]
        self.steps.append({"first": first, "offsets": offsets})

    def waiting(self, agent_rows: np.ndarray) -> None:
        """Refuse agents that wait."""
        environment, agent = divmod(int(agent_rows[0]), self.agents)
        raise ConfigError(
            f"agent {agent} of environment {environment} has acted and waits for others, but joint steps need agents "
            "that act at the same time",
            "env",
            "Choose an environment without turns, or an algorithm that learns from each agent alone, such as dqn.",
        )

    def recorded(self, numbers: np.ndarray) -> None:
        """Add the steps of a recorded episode of the only agent."""
        if self.agents > 1:
            raise ConfigError(
                f"recorded episodes have the steps of one agent each, but joint steps need those of all {self.agents}",
                "algorithm",
                "Begin without recorded episodes.",
            )
        self.stepped(np.arange(len(numbers)), numbers)

    # Reading

    def draw(self, rng: np.random.Generator, count: int, beta: float = 0.0, stretch: int = 1) -> Drawn:
        """Return joint steps until they have `count` rows."""
        if stretch > 1:
            raise ValueError("joint steps are drawn one by one")
        records = self.steps.take(self._draw(rng, -(-count // self.agents)))
        filler = records["offsets"] == _ABSENT
        numbers = records["first"][:, None] + np.where(filler, 0, records["offsets"])
        filler = filler.reshape(-1)
        extra = {"agent": np.tile(np.arange(self.agents), len(numbers)), "present": ~filler}
        return Drawn(numbers.reshape(-1) % self.buffer.capacity, extra, filler=filler)

    def _draw(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Return the numbers of joint steps: the few whose rows have been overwritten are drawn again."""
        ring, oldest = self.steps, self.buffer.oldest
        first = ring.columns["first"]
        self._low = ring.lowest(self._low, lambda records: records["first"] >= oldest)
        if self._low == ring.rows:
            raise ValueError("the replay buffer has no joint step to sample")
        numbers = rng.integers(self._low, ring.rows, size=count)
        gone = np.flatnonzero(first[numbers % ring.capacity] < oldest)
        while len(gone):
            numbers[gone] = rng.integers(self._low, ring.rows, size=len(gone))
            gone = gone[first[numbers[gone] % ring.capacity] < oldest]
        return numbers

    # Saving

    def rings(self) -> Mapping[str, Ring]:
        """Return the joint steps."""
        return {"joint-": self.steps}


def _record(agents: int) -> Specs:
    """Return the columns of a joint step: its smallest row number, and how far on the row of each agent lies."""
    return {"first": LeafSpec((), np.dtype(np.int64)), "offsets": LeafSpec((agents,), np.dtype(np.int32))}
