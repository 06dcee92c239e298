"""Where the sequences of a replay buffer begin, and what networks remembered there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from maze_core import map_tree, take_rows
from maze_core.base.saved_state import check_range
from maze_core.base.tree import gather_rows
from maze_core.envs.spaces import LeafSpec, Specs, allocated_bytes
from maze_offpolicy.replay.ring import Ring

if TYPE_CHECKING:
    from collections.abc import Callable

    from maze_core import Tree

_AT_A_TIME = 64
INITIAL = -1
"""In the place of a state's number: what is remembered where episodes begin."""


class RecordRing(Ring):
    """The newest records with these columns. All are final."""

    def append(self, records: Tree) -> np.ndarray:
        """Write records, leaves [K, …]; return their numbers, [K]."""
        count = len(next(iter(records.values())))
        numbers = self.rows + np.arange(count)
        slots = numbers % self.capacity
        for name, column in self.columns.items():
            column[slots[-self.capacity :]] = records[name][-self.capacity :]
        self.rows += count
        return numbers

    def take(self, numbers: np.ndarray) -> Tree:
        """Return the records of these numbers, leaves [K, …]."""
        return gather_rows(self.columns, numbers % self.capacity)

    def lowest(self, low: int, held: Callable[[Tree], np.ndarray]) -> int:
        """Return the number from `low` on of the first record that is held; `rows` if none is.

        `held`: returns which records, leaves [K, …], are, [K] bool; once one is not, it never is again.
        """
        low = max(low, self.oldest)
        while low < self.rows:
            numbers = np.arange(low, min(low + _AT_A_TIME, self.rows))
            there = np.flatnonzero(held(self.take(numbers)))
            if len(there):
                return low + int(there[0])
            low = int(numbers[-1]) + 1
        return low


class SequenceIndex:
    """The complete sequences of a buffer. The rows themselves lie in the buffer.

    What networks remembered is stored only where it is not what they remember at the beginning of an episode, which is
    at most once for each full sequence.

    Args:
        capacity: rows of the buffer.
        length: most steps of a sequence.
        agent_rows: number of rows that are written at a time.
        initial: what is remembered where an episode begins, leaves [1, …].
    """

    def __init__(self, capacity: int, length: int, agent_rows: int, initial: Tree) -> None:
        sequences, states = self.sizes(capacity, length, agent_rows)
        self.sequences = RecordRing(_SEQUENCE, sequences)
        self.states = RecordRing(_states(initial), states)
        self._initial = initial

    @staticmethod
    def sizes(capacity: int, length: int, agent_rows: int) -> tuple[int, int]:
        """Return how many sequences and how many states so many rows can have: an episode of one step has two rows."""
        return capacity // (1 if length == 1 else 2) + agent_rows, capacity // length + 2 * agent_rows

    @staticmethod
    def nbytes(capacity: int, length: int, agent_rows: int, initial: Tree) -> int:
        """Return the bytes that it takes; arguments as for the class."""
        sequences, states = SequenceIndex.sizes(capacity, length, agent_rows)
        return allocated_bytes(_SEQUENCE, (sequences,)) + allocated_bytes(_states(initial), (states,))

    def append(
        self, first: np.ndarray, burnt: np.ndarray, steps: np.ndarray, fresh: np.ndarray, state: Tree
    ) -> np.ndarray:
        """Add complete sequences; return their slots, [K].

        Args:
            first: [K], the numbers of their first rows, those that are only read included.
            burnt: [K], how many rows are only read.
            steps: [K]
            fresh: [K] bool, True where the first row begins an episode.
            state: what is remembered before the first rows, leaves [K, …].
        """
        numbers = np.full(len(first), INITIAL)
        later = np.flatnonzero(~fresh)
        if len(later):
            numbers[later] = self.states.append(take_rows(state, later))
        added = self.sequences.append({"first": first, "burnt": burnt, "steps": steps, "state": numbers})
        return added % self.sequences.capacity

    def remembered(self, numbers: np.ndarray) -> Tree:
        """Return the states of these numbers, leaves [K, …]; they may be `INITIAL`."""
        later = np.flatnonzero(numbers != INITIAL)
        state = repeated(self._initial, len(numbers))
        for key, leaf in self.states.take(numbers[later]).items():
            state[key][later] = leaf
        return state

    def check(self, length: int, burn_in: int) -> None:
        """Raise ValueError if sequences that were read from a file are not of so many steps, or have no state."""
        records = self.sequences.take(np.arange(self.sequences.oldest, self.sequences.rows))
        check_range(records["steps"], 1, length + 1, "sequences")
        check_range(records["burnt"], 0, burn_in + 1, "sequences")
        check_range(records["state"], INITIAL, max(0, self.states.rows), "sequences")

    def held(self, records: Tree, oldest_row: int) -> np.ndarray:
        """Return which sequences, leaves [K, …], have all rows from `oldest_row` on, and their state, [K] bool."""
        known = (records["state"] == INITIAL) | (records["state"] >= self.states.oldest)
        there: np.ndarray = (records["first"] >= oldest_row) & known
        return there


_SEQUENCE: Specs = {
    "first": LeafSpec((), np.dtype(np.int64)),
    "burnt": LeafSpec((), np.dtype(np.int32)),
    "steps": LeafSpec((), np.dtype(np.int32)),
    "state": LeafSpec((), np.dtype(np.int64)),
}


def _states(initial: Tree) -> Specs:
    return {key: LeafSpec(leaf.shape[1:], leaf.dtype) for key, leaf in initial.items()}


def repeated(initial: Tree, count: int) -> Tree:
    """Return leaves [1, …] as [count, …]."""
    return map_tree(lambda leaf: np.repeat(leaf, count, 0), initial)
