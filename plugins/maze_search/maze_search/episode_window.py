"""A window of the newest rows of finished episodes, for algorithms that know what a row is worth at the end alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from maze_core import Count, take_rows, varies
from maze_core.base.free_ram import check_ram
from maze_core.base.saved_state import Array, OrEmpty, OrLeftOut
from maze_core.base.tree import copy_tree, gather_rows, put_rows, stack_trees
from maze_core.envs.spaces import allocate, allocated_bytes

if TYPE_CHECKING:
    from maze_core import Tree
    from maze_core.envs.spaces import LeafSpec


class EpisodeWindow:
    """The newest `capacity` rows of finished episodes; those of unfinished ones wait, by environment.

    Args:
        columns: the leaves of a row.
        capacity: rows of the window.
        num_envs: N.
        where: the setting that an error about the memory names.
        what: the rows are, in that error.

    Raises:
        ConfigError: the window does not fit into the free memory; nothing is allocated.
    """

    def __init__(self, columns: dict[str, LeafSpec], capacity: int, num_envs: int, where: str, what: str) -> None:
        check_ram(allocated_bytes(columns, (capacity,)), capacity, where, what=what)
        self._rows, self._capacity = allocate(columns, (capacity,)), capacity
        self._written = 0
        """Rows put so far, overwritten ones included."""
        self.waiting: list[list[Tree]] = [[] for _ in range(num_envs)]
        """The rows of unfinished episodes, each without a further dimension."""

    def __len__(self) -> int:
        """Return the number of rows in the window."""
        return min(self._written, self._capacity)

    def finish(self, env: int) -> list[Tree]:
        """Return the rows of an environment that wait, and let none wait: its episode is over."""
        rows, self.waiting[env] = self.waiting[env], []
        return rows

    def forget(self, envs: Iterable[int]) -> None:
        """Let no row of these environments wait: their episodes have just begun."""
        for env in envs:
            self.waiting[env] = []

    def put(self, row: Tree) -> None:
        """Put a row into the window, in the place of the oldest where it is full."""
        put_rows(self._rows, self._written % self._capacity, row)
        self._written += 1

    def sample(self, count: int, rng: np.random.Generator) -> Tree:
        """Return rows of the window, all equally likely, leaves [count, …]."""
        return gather_rows(self._rows, rng.integers(len(self), size=count))

    # Saving

    @property
    def nbytes(self) -> int:
        """Bytes of the window."""
        return sum(leaf.nbytes for leaf in self._rows.values())

    def state(self) -> dict[str, Any]:
        """Return the window, and the rows that wait."""
        waiting = [row for rows in self.waiting for row in rows]
        rows = {key: Array(leaf.dtype, (None, *leaf.shape[1:])) for key, leaf in self._rows.items()}
        some = {key: OrLeftOut(leaf) for key, leaf in rows.items()}  # without what the end of the episode tells
        return {
            "written": varies(self._written, Count()),
            "window": varies(copy_tree(take_rows(self._rows, slice(self._written))), rows),
            "open": varies(stack_trees(waiting) if waiting else {}, OrEmpty(some)),
            "lengths": varies([len(rows) for rows in self.waiting], [Count()] * len(self.waiting)),
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore the result of `state()`, which may have further entries; of a larger window the newest rows.

        Raises:
            ValueError: it has rows of other shapes.
        """
        written, window, waiting = state["written"], state["window"], dict(state["open"])
        held = len(next(iter(window.values())))
        if {len(leaf) for leaf in waiting.values()} != ({sum(state["lengths"])} - {0}):
            raise ValueError("another number of rows that wait")
        if held != min(written, self._capacity):  # of another capacity
            newest = np.arange(written - min(held, self._capacity), written) % held
            written, window = len(newest), take_rows(window, newest)
        self._written = written
        put_rows(self._rows, slice(written), window)
        ends = np.cumsum([0, *state["lengths"]]).tolist()
        rows = [copy_tree(take_rows(waiting, place)) for place in range(ends[-1])]
        self.waiting = [rows[first:end] for first, end in pairwise(ends)]
