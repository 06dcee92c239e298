"""Priorities of replayed steps: proportional sampling with a sum tree (Schaul et al., arXiv 1511.05952)."""

from __future__ import annotations

from typing import Any

import numpy as np

from maze_core import Count, varies
from maze_core.base.saved_state import Array, Number

_LARGEST_SHARE = 0.9
_LEAST = 1e-6
# Added to every error, so that a step without one is still drawn now and then (the paper's epsilon).


class SumTree:
    """`size` values of at least 0; sets and finds K of them at a time, in log2(size) operations on arrays.

    A complete binary tree in one array: node 1 is the root, node n has the children 2n and 2n + 1, the last level holds
    the values. A parent is always the sum of its two children, so the tree depends on its values only and not on
    the order in which they were set.
    """

    def __init__(self, size: int) -> None:
        self._depth = _depth(size)
        self._first = 1 << self._depth
        self._nodes = np.zeros(2 * self._first)

    @property
    def total(self) -> float:
        """The sum of all values."""
        return float(self._nodes[1])

    def __getitem__(self, slots: np.ndarray) -> np.ndarray:
        """Return the values of slots, [K]."""
        values: np.ndarray = self._nodes[self._first + slots]
        return values

    def set(self, slots: np.ndarray, values: np.ndarray | float) -> None:
        """Set the values of slots [K]; of a slot that occurs twice, the later value counts."""
        if not len(slots):
            return
        nodes, at = self._nodes, self._first + slots
        nodes[at] = values
        for _ in range(self._depth):
            at = at >> 1
            nodes[at] = nodes[2 * at] + nodes[2 * at + 1]

    def find(self, sums: np.ndarray) -> np.ndarray:
        """Return the slots in which the running sum over all values exceeds `sums` [K], each from 0 to below `total`.

        A slot whose value is 0 is never returned while `total` is above 0, whatever the rounding.
        """
        nodes, rest = self._nodes, sums.astype(np.float64)
        at = np.ones(len(rest), np.int64)
        for _ in range(self._depth):
            at = 2 * at
            left = nodes[at]
            right = (rest >= left) & (nodes[at + 1] > 0)
            rest = np.where(right, rest - left, rest)
            at += right
        slots: np.ndarray = at - self._first
        return slots


def tree_bytes(size: int) -> int:
    """Return the bytes of a sum tree of `size` values."""
    return 16 << _depth(size)


def _depth(size: int) -> int:
    return max(1, (size - 1).bit_length())


class Priorities:
    """Priorities of a replay buffer's slots: (|error| + 1e-6) ** exponent, and 0 for a slot without a step.

    A new step has the largest priority so far, so that each is likely to be drawn once before its error is known.
    Stored in float32, so that they can be saved exactly.

    Args:
        capacity: slots of the buffer.
        exponent: alpha; 0: uniform, 1: in proportion to the error.
    """

    def __init__(self, capacity: int, exponent: float) -> None:
        self.capacity, self.exponent = capacity, exponent
        self.largest = 1.0
        """The largest priority so far."""
        self._tree = SumTree(capacity)

    def __getitem__(self, slots: np.ndarray) -> np.ndarray:
        """Return the priorities of slots, [K] float32."""
        return self._tree[slots].astype(np.float32)

    def add(self, slots: np.ndarray) -> None:
        """Give new steps the largest priority so far."""
        self._tree.set(slots, self.largest)

    def remove(self, slots: np.ndarray) -> None:
        """Let slots without a step never be drawn."""
        self._tree.set(slots, 0.0)

    def update(self, slots: np.ndarray, errors: np.ndarray) -> None:
        """Set the priorities of drawn steps [K] from their new errors [K]."""
        values = ((np.abs(errors.astype(np.float64)) + _LEAST) ** self.exponent).astype(np.float32)
        if len(values):
            self.largest = max(self.largest, float(values.max()))
        self._tree.set(slots, values)

    def state(self, oldest: int, end: int) -> dict[str, Any]:
        """Return the priorities of rows `oldest` to `end - 1`, and the largest so far. Row n has slot n % capacity."""
        values = self[np.arange(oldest, end) % self.capacity]
        return {
            "values": varies(values, Array(np.dtype(np.float32), (None,), 0.0, np.inf)),
            "largest": varies(self.largest, Number(float(np.finfo(np.float32).tiny))),
            "end": varies(end, Count()),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`, as far back as the capacity allows."""
        values, end = state["values"][-self.capacity :], state["end"]
        self.largest = state["largest"]
        self._tree.set((end - len(values) + np.arange(len(values))) % self.capacity, values)

    @property
    def total(self) -> float:
        """The sum of all priorities."""
        return self._tree.total

    def draw(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Return slots [count], drawn with replacement in proportion to their priorities.

        One is drawn from each of `count` equal parts of the total, which covers it more evenly (the paper's 3.3).
        """
        parts = (np.arange(count) + rng.random(count)) / count
        return self._tree.find(parts * self._tree.total)

    def weights(self, slots: np.ndarray, beta: float) -> np.ndarray:
        """Return importance weights [K] of drawn slots, the largest 1: (least drawn priority / priority) ** beta.

        The paper's (1 / (N * P(i))) ** beta divided by the largest of the batch, in which N and the total cancel out.
        """
        values = self._tree[slots]
        weights: np.ndarray = ((values.min() / values) ** beta).astype(np.float32)
        return weights


class SequencePriorities(Priorities):
    """Priorities of sequences: of the errors of a sequence's steps, 0.9 of the largest and 0.1 of their mean.

    The mixture is that of Kapturowski et al. 2019 (R2D2, eq. 2.3).
    """

    def update(self, slots: np.ndarray, errors: np.ndarray) -> None:
        """Set the priorities of drawn sequences from the errors of their steps, [B]; `slots`: [B], their sequences."""
        sequences, which = np.unique(slots, return_inverse=True)
        size = np.abs(errors.astype(np.float64))
        largest = np.zeros(len(sequences))
        np.maximum.at(largest, which, size)
        mean = np.bincount(which, size, len(sequences)) / np.bincount(which, minlength=len(sequences))
        super().update(sequences, _LARGEST_SHARE * largest + (1 - _LARGEST_SHARE) * mean)
