"""The actions since the beginning of the oldest unfinished episode: what a resumed run replays."""

from __future__ import annotations

import numpy as np

from maze_core.envs.spaces import Specs, allocate
from maze_core.envs.vector import Tree

_CAPACITY = 64


class ActionLog:
    """A growing record of the actions of N environments; O(1) amortised per step, a few bytes per action.

    An episode that never ends keeps all its actions: that is the price of resuming it exactly.
    """

    def __init__(self, specs: Specs, num_envs: int) -> None:
        self._specs, self._num_envs = specs, num_envs
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self._first, self._end, self._capacity = 0, 0, _CAPACITY
        self._arrays = allocate(self._specs, (_CAPACITY, self._num_envs))

    def append(self, actions: Tree) -> None:
        """Copy the actions of one step (leaves `[N, …]`)."""
        if self._end == self._capacity:
            self._make_room()
        for key, array in self._arrays.items():
            array[self._end] = actions[key]
        self._end += 1

    def keep(self, steps: int) -> None:
        """Forget all but the last `steps` steps."""
        self._first = max(self._first, self._end - steps)

    def tree(self) -> Tree:
        """A copy of what is kept, leaves `[T, N, …]`."""
        return {key: array[self._first : self._end].copy() for key, array in self._arrays.items()}

    def load(self, actions: Tree) -> None:
        """Replace the record by leaves `[T, N, …]`."""
        self.clear()
        for t in range(len(next(iter(actions.values())))):
            self.append({key: array[t] for key, array in actions.items()})

    def _make_room(self) -> None:
        kept = self._end - self._first
        self._capacity = max(_CAPACITY, 2 * kept)
        fresh: dict[str, np.ndarray] = allocate(self._specs, (self._capacity, self._num_envs))
        for key, array in fresh.items():
            array[:kept] = self._arrays[key][self._first : self._end]
        self._arrays, self._first, self._end = fresh, 0, kept
