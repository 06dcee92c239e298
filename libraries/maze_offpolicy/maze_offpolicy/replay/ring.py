"""A ring of numbered rows in preallocated arrays: what replay keeps, and what its files store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from maze_core import take_rows
from maze_core.base.tree import copy_tree
from maze_core.envs.spaces import Specs, allocate

if TYPE_CHECKING:
    from maze_core import Tree

Slots = slice | np.ndarray


class Ring:
    """The newest `capacity` rows with these columns: row number n lies in slot n % capacity."""

    def __init__(self, specs: Specs, capacity: int) -> None:
        self.specs, self.capacity = specs, capacity
        self.columns = allocate(specs, (capacity,))
        """Leaves [capacity, …]"""
        self.rows = 0
        """Rows written so far, overwritten ones included; the number of the next one."""
        self.open = 0
        """Number of newest rows that are not final."""

    def __len__(self) -> int:
        """Return the number of rows held."""
        return min(self.rows, self.capacity)

    @property
    def oldest(self) -> int:
        """The number of the oldest row that is held."""
        return max(0, self.rows - self.capacity)

    @property
    def settled(self) -> int:
        """The number of rows that are final: they can only be overwritten."""
        return self.rows - self.open

    def slots(self, first: int, count: int) -> Slots:
        """Return where rows `first` to `first + count - 1` lie; a slice where they lie side by side."""
        start = first % self.capacity
        if start + count <= self.capacity:
            return slice(start, start + count)
        return (start + np.arange(count)) % self.capacity

    def read(self, first: int, count: int) -> Tree:
        """Return copies of the columns of rows `first` to `first + count - 1`, by name, leaves [count, …]."""
        return copy_tree(take_rows(self.columns, self.slots(first, count)))

    def restore(self, first: int, columns: Tree) -> None:
        """Write results of `read`, in order; all rows are final then."""
        written = len(next(iter(columns.values())))
        self.rows, self.open = first + written, 0
        count = min(written, self.capacity)
        slots = self.slots(self.rows - count, count)
        for name, column in self.columns.items():
            column[slots] = columns[name][written - count :]
