"""Sequences drawn from replay, for networks that remember: steps of an episode, and what is remembered before them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from maze_core import ConfigError, Count, Sequences, TensorTree, subtree, take_rows, to_arrays, to_tensors, varies
from maze_core.base.saved_state import Array, OrNone
from maze_core.base.tree import copy_tree, put_rows
from maze_offpolicy.replay.priorities import SequencePriorities, tree_bytes
from maze_offpolicy.replay.selectors import Drawn, Selector
from maze_offpolicy.replay.sequence_index import SequenceIndex, repeated

if TYPE_CHECKING:
    from maze_core import Tree
    from maze_offpolicy.replay.buffer import ReplayBuffer
    from maze_offpolicy.replay.ring import Ring

Carry = Callable[[TensorTree, np.ndarray, TensorTree], TensorTree]
"""Returns what networks remember after sequences: observations [B, …], lengths [S], memory before them [S, …]."""
_NOBODY: Mapping[str, str] = MappingProxyType({})


class BySequence(Selector):
    """Draws whole sequences of the rows of N agents, and of recorded episodes.

    Steps 0 … length - 1 of an episode are its first sequence, the next ones the second, and so on; its last may be
    shorter. Up to `burn_in` observations of the episode before its first step are read without gradient, and what was
    remembered before these is stored (Kapturowski et al. 2019, R2D2: stored states and burn-in). A sequence is drawn
    only when it is complete. With priorities, batches have `weight` and `slot` as those of `ByPriority`, [B].

    Args:
        agent_rows: N, the number of environments, or of the agents in all of them.
        length: most steps of a sequence.
        burn_in: most observations before them.
        initial: what is remembered where an episode begins, leaves [1, …] named `NETWORK/…`.
        carry: returns what networks remember after some rows, those of which it gets a memory.
        targets: networks that begin the burn-in with what another one remembered, by name: target networks.
        exponent: draw sequences in proportion to their errors to this power; None: uniformly.
    """

    def __init__(
        self,
        agent_rows: int,
        length: int,
        burn_in: int,
        initial: TensorTree,
        carry: Carry,
        targets: Mapping[str, str] = _NOBODY,
        exponent: float | None = None,
    ) -> None:
        self.length, self.burn_in, self._targets, self._exponent = length, burn_in, targets, exponent
        self._initial, self._carry, self._agent_rows = to_arrays(initial), carry, agent_rows
        self._numbers = np.zeros((agent_rows, burn_in + length + 1), np.int64)
        """The row numbers of each agent's open sequence, and of the observation after it."""
        self._steps, self._burnt = np.zeros(agent_rows, np.int64), np.zeros(agent_rows, np.int64)
        self._fresh, self._lost = np.ones(agent_rows, bool), np.zeros(agent_rows, bool)
        """Whether the first row of the open sequence begins an episode; whether rows of it have been overwritten."""
        self._state = repeated(self._initial, agent_rows)
        """What is remembered before the first rows of the open sequences, leaves [N, …]."""

    def attach(self, buffer: ReplayBuffer) -> None:
        """Begin without a sequence."""
        super().attach(buffer)
        self.index = SequenceIndex(buffer.capacity, self.length, self._agent_rows, self._initial)
        self._low = 0
        """A number of a sequence below which none has all of its rows."""
        if self._exponent is not None:
            self.priorities = SequencePriorities(self.index.sequences.capacity, self._exponent)

    def nbytes(self, capacity: int) -> int:
        """Return the bytes of the index, of the states and of the priorities."""
        most, _ = SequenceIndex.sizes(capacity, self.length, self._agent_rows)
        tree = 0 if self._exponent is None else tree_bytes(most)
        return SequenceIndex.nbytes(capacity, self.length, self._agent_rows, self._initial) + tree

    @property
    def ready(self) -> bool:
        """True once a sequence is complete."""
        return self.index.sequences.rows > 0

    # Writing

    def stepped(self, agent_rows: np.ndarray, numbers: np.ndarray) -> None:
        """Add steps; an agent's sequence is complete after `length` of them, and where its episode ends."""
        columns, slots = self.buffer.steps_of, numbers % self.buffer.capacity
        at = self._burnt[agent_rows] + self._steps[agent_rows]
        self._lost[agent_rows] |= (at > 0) & (self._numbers[agent_rows, at] != numbers)
        self._numbers[agent_rows, at], self._numbers[agent_rows, at + 1] = numbers, numbers + columns.ahead[slots]
        self._steps[agent_rows] += 1
        ended = columns.terminated[slots] | columns.truncated[slots]
        complete = ended | (self._steps[agent_rows] == self.length)
        if complete.any():
            self._close(agent_rows[complete], ended[complete])
            self.forget(agent_rows[ended])

    def forget(self, agent_rows: Sequence[int] | np.ndarray) -> None:
        """Begin episodes of some agents; what was not complete there is never drawn."""
        self._steps[agent_rows] = self._burnt[agent_rows] = 0
        self._fresh[agent_rows], self._lost[agent_rows] = True, False
        for key, leaf in self._initial.items():
            self._state[key][agent_rows] = leaf

    def recorded(self, numbers: np.ndarray) -> None:
        """Add the sequences of a recorded episode; what is remembered in it is computed with the networks as they are.

        Its steps have these row numbers, [L].
        """
        count, first, state = len(numbers), 0, self._initial
        for start in range(0, count, self.length):
            burnt, steps = min(self.burn_in, start), min(self.length, count - start)
            if start - burnt > first:
                read = numbers[first : start - burnt]
                first, state = start - burnt, self._carried(read, np.array([len(read)]), state)
            self._append(numbers[[first]], np.array([burnt]), np.array([steps]), np.array([first == 0]), state)

    def memory(self, rows: np.ndarray, obs: Tree) -> TensorTree:
        """Return what networks remember before the current observations, leaves [N, …] named `NETWORK/…`.

        `rows`: those whose transition is not complete, [K]; `obs`: what they acted on, leaves [K, …].
        """
        after = self._after(np.arange(self._agent_rows), self._burnt + self._steps)
        if len(rows):
            before = to_tensors(take_rows(after, rows))
            put_rows(after, rows, to_arrays(self._carry(to_tensors(obs), np.ones(len(rows), np.int64), before)))
        return to_tensors(after)

    def _close(self, agent_rows: np.ndarray, ended: np.ndarray) -> None:
        """Add the complete sequences of these agents, and begin the next ones of episodes that go on."""
        self._lost[agent_rows] |= self._numbers[agent_rows, 0] < self.buffer.oldest
        kept = ~self._lost[agent_rows]
        whole = agent_rows[kept]
        first, burnt, steps = self._numbers[whole, 0], self._burnt[whole], self._steps[whole]
        self._append(first, burnt, steps, self._fresh[whole], take_rows(self._state, whole))
        self._steps[agent_rows[~kept]] = self._burnt[agent_rows[~kept]] = 0  # their episode has no further sequence
        agent_rows = agent_rows[kept & ~ended]
        if not len(agent_rows):
            return
        known = self._burnt[agent_rows] + self._steps[agent_rows]
        again = np.minimum(self.burn_in, known)
        read = known - again
        put_rows(self._state, agent_rows, self._after(agent_rows, read))
        for agent_row, begin, end in zip(agent_rows, read, known, strict=True):
            self._numbers[agent_row, : end - begin + 1] = self._numbers[agent_row, begin : end + 1].copy()
        self._fresh[agent_rows] &= read == 0
        self._steps[agent_rows], self._burnt[agent_rows] = 0, again

    def _append(self, first: np.ndarray, burnt: np.ndarray, steps: np.ndarray, fresh: np.ndarray, state: Tree) -> None:
        slots = self.index.append(first, burnt, steps, fresh, state)
        if self.priorities is not None:
            self.priorities.add(slots)

    def _after(self, agent_rows: np.ndarray, counts: np.ndarray) -> Tree:
        """Return what is remembered after the first `counts` [K] rows of the agents' open sequences, leaves [K, …]."""
        state = copy_tree(take_rows(self._state, agent_rows))
        some = np.flatnonzero(counts)
        if len(some):
            numbers = np.concatenate([self._numbers[agent_rows[i], : counts[i]] for i in some])
            put_rows(state, some, self._carried(numbers, counts[some], take_rows(state, some)))
        return state

    def _carried(self, numbers: np.ndarray, lengths: np.ndarray, state: Tree) -> Tree:
        """Return what is remembered after sequences of rows of these numbers, which lie one after the other."""
        obs = self.buffer.observations(numbers % self.buffer.capacity)
        return to_arrays(self._carry(to_tensors(obs), lengths.astype(np.int64), to_tensors(state)))

    # Reading

    def draw(self, rng: np.random.Generator, count: int, beta: float = 0.0, stretch: int = 1) -> Drawn:
        """Return sequences until they have `count` steps. Without priorities, all steps are equally likely."""
        if stretch > 1:
            raise ValueError("sequences are stretches already")
        slots = self._draw(rng, count)
        records = take_rows(self.index.sequences.columns, slots)
        burnt, steps = records["burnt"].astype(np.int64), records["steps"].astype(np.int64)
        rows = self._rows(records["first"], burnt + steps)
        time = np.arange(rows.shape[1])
        begun, going = time >= burnt[:, None], time < (burnt + steps)[:, None]
        state = self.index.remembered(records["state"])
        for target, leader in self._targets.items():
            state |= {f"{target}/{key}": leaf.copy() for key, leaf in subtree(state, f"{leader}/").items()}
        some = np.flatnonzero(burnt)
        if len(some):
            put_rows(state, some, self._carried(rows[~begun], burnt[some], take_rows(state, some)))
        extra = {}
        if self.priorities is not None:
            weights = self.priorities.weights(slots, beta)
            extra = {"weight": np.repeat(weights, steps), "slot": np.repeat(slots, steps)}
        return Drawn(rows[begun & going], extra, Sequences.of_networks(steps, to_tensors(state)))

    def _rows(self, first: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Return the slots of the rows from these numbers on, [S, counts.max() + 1], as far as they follow."""
        slots = first % self.buffer.capacity
        found = [slots]
        for _ in range(int(counts.max())):
            slots = self.buffer.steps_of.following(slots)
            found.append(slots)
        return np.stack(found, 1)

    def _draw(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Return the slots of sequences in the index."""
        ring, oldest = self.index.sequences, self.buffer.oldest
        self._low = ring.lowest(self._low, lambda records: self.index.held(records, oldest))
        drawn: list[np.ndarray] = []
        while count > 0:
            slots = self._some(rng, -(-count // self.length))
            records = take_rows(self.index.sequences.columns, slots)
            there = self.index.held(records, oldest)
            if self.priorities is not None:
                self.priorities.remove(slots[~there])
            drawn.append(slots[there])
            count -= int(records["steps"][there].sum())
        return np.concatenate(drawn)

    def _some(self, rng: np.random.Generator, count: int) -> np.ndarray:
        ring = self.index.sequences
        if self._low == ring.rows or (self.priorities is not None and not self.priorities.total):
            raise ValueError("the replay buffer has no complete sequence to sample")
        if self.priorities is not None:
            return self.priorities.draw(rng, count)
        drawn: np.ndarray = rng.integers(self._low, ring.rows, size=count) % ring.capacity
        return drawn

    # Saving

    def rings(self) -> Mapping[str, Ring]:
        """Return the index and the states."""
        return {"sequences-": self.index.sequences, "states-": self.index.states}

    def state(self) -> dict[str, Any]:
        """Return the open sequences, and the priorities of the complete ones."""
        ring = self.index.sequences
        priorities = None if self.priorities is None else self.priorities.state(ring.oldest, ring.rows)
        return {
            "sequence_length": varies(self.length, Count()),
            "burn_in": varies(self.burn_in, Count()),
            "lanes": {
                **copy_tree(self._lanes()),
                "steps": varies(self._steps.copy(), Array(self._steps.dtype, self._steps.shape, 0, self.length)),
                "burnt": varies(self._burnt.copy(), Array(self._burnt.dtype, self._burnt.shape, 0, self.burn_in + 1)),
            },
            "remembered": copy_tree(self._state),
            "priorities": varies(priorities, OrNone(priorities)),
        }

    def check_state(self, state: Any) -> None:
        """Raise ConfigError if the sequences were of other lengths."""
        for name, now in (("sequence_length", self.length), ("burn_in", self.burn_in)):
            if (before := state[name]) != now:
                raise ConfigError(
                    f"the replay data of this run are for {before}, which cannot change to {now}", f"algorithm.{name}"
                )

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`."""
        self.index.check(self.length, self.burn_in)
        agent_rows = copy_tree(state["lanes"])
        self._numbers, self._steps, self._burnt = agent_rows["numbers"], agent_rows["steps"], agent_rows["burnt"]
        self._fresh, self._lost = agent_rows["fresh"], agent_rows["lost"]
        self._state = copy_tree(state["remembered"])
        if self.priorities is None:
            return
        if state["priorities"] is not None:
            self.priorities.load_state(state["priorities"])
        else:  # they were drawn uniformly before
            ring = self.index.sequences
            self.priorities.add(np.arange(ring.oldest, ring.rows) % ring.capacity)
        if self.ready and not self.priorities.total:
            raise ValueError("none of its sequences has a priority")

    def _lanes(self) -> Tree:
        """Return the open sequences of all agents."""
        lanes = {"numbers": self._numbers, "steps": self._steps, "burnt": self._burnt}
        return lanes | {"fresh": self._fresh, "lost": self._lost}
