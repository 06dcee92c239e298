"""The steps since the start of the oldest unfinished episode, for a resumed run to replay and compare."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from maze_core.base.tree import Tree, copy_tree, take_rows
from maze_core.envs.spaces import Specs, allocate

_CAPACITY = 64


class StepLog:
    """A growing record of the actions and rewards of N environments; O(1) amortised per step, a few bytes each.

    An episode that never ends keeps all its steps, since resuming exactly needs them.
    """

    def __init__(self, specs: Specs, num_envs: int) -> None:
        self._specs, self._num_envs = specs, num_envs
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self._first, self._end = 0, 0
        self._allocate(_CAPACITY)

    def append(self, actions: Tree, rewards: np.ndarray) -> None:
        """Copy the actions (leaves `[N, …]`) and the rewards `[N]` of one step."""
        if self._end == self._capacity:
            self._make_room()
        for key, array in self._actions.items():
            array[self._end] = actions[key]
        self._rewards[self._end] = rewards
        self._end += 1

    def extend(self, actions: Tree, rewards: np.ndarray) -> None:
        """Copy the actions (leaves `[T, N, …]`) and the rewards `[T, N]` of T steps."""
        end = self._end + len(rewards)
        if end > self._capacity:
            self._make_room(len(rewards))
            end = self._end + len(rewards)
        for key, array in self._actions.items():
            array[self._end : end] = actions[key]
        self._rewards[self._end : end] = rewards
        self._end = end

    def keep(self, steps: int) -> None:
        """Forget all but the last `steps` steps."""
        self._first = max(self._first, self._end - steps)

    def recorded(self, lengths: Sequence[int] | np.ndarray) -> dict[str, Any]:
        """Return copies of `actions` (leaves `[T, N, …]`) and `rewards` `[T, N]` float32.

        `lengths` are those of the unfinished episodes. The steps of a shorter episode come last, after zeros.
        """
        steps = slice(self._first, self._end)
        actions = copy_tree(take_rows(self._actions, steps))
        rewards = self._rewards[steps].copy()
        for array in (*actions.values(), rewards):
            for i, length in enumerate(lengths):
                array[: len(array) - length, i] = 0
        return {"actions": actions, "rewards": rewards}

    def load(self, state: dict[str, Any]) -> None:
        """Restore the result of `recorded()`."""
        self.clear()
        for t, rewards in enumerate(state["rewards"]):
            self.append(take_rows(state["actions"], t), rewards)

    def _allocate(self, capacity: int) -> None:
        self._capacity = capacity
        self._actions = allocate(self._specs, (capacity, self._num_envs))
        self._rewards = np.zeros((capacity, self._num_envs), np.float32)

    def _make_room(self, steps: int = 1) -> None:
        kept, past = slice(self._first, self._end), (self._actions, self._rewards)
        count = self._end - self._first
        self._allocate(max(_CAPACITY, 2 * (count + steps - 1)))
        for key, array in past[0].items():
            self._actions[key][:count] = array[kept]
        self._rewards[:count] = past[1][kept]
        self._first, self._end = 0, count
