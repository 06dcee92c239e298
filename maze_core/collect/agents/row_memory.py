"""What a policy remembers of N rows while it acts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from maze_core.base.saved_state import OrEmpty, varies
from maze_core.base.tree import copy_tree, map_tree, take_rows, to_arrays, to_device, with_rows
from maze_core.data.batch import to_tensors

if TYPE_CHECKING:
    import numpy as np

    from maze_core.base.tree import TensorTree, Tree
    from maze_core.models.distributions.base import TreeDistribution
    from maze_core.models.policy import Policy


class RowMemory:
    """The state of a policy that remembers, one row for each of the N streams it acts in."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._state: TensorTree | None = None
        self.before: TensorTree = {}
        """The state of all streams before the last step, leaves [N, …]."""

    def begin(self, rows: Sequence[int]) -> None:
        """Forget the episodes of these rows."""
        if self._state is not None:
            index = torch.tensor(rows)
            fresh = self._policy.initial_state(len(rows))
            # Copied: tensors made in inference mode cannot be changed outside it.
            self._state = with_rows(self._state, index, fresh)

    def step(self, obs: TensorTree) -> TreeDistribution:
        """Return the distributions for the next row of every stream, and remember it."""
        state = self.current(len(next(iter(obs.values()))))
        self.before = state
        distribution, self._state = self._policy.step(obs, state)
        return distribution

    def hear(self, actions: Tree, rewards: np.ndarray) -> None:
        """Let a policy that hears take what came of the last step: actions, leaves [N, …], and rewards, [N]."""
        state = self.current(len(rewards))
        device = next(iter(state.values())).device
        with torch.inference_mode():
            received = torch.from_numpy(rewards).to(device)
            self._state = self._policy.heard(state, to_tensors(actions, device), received)

    def wait(self, rows: Sequence[int] | np.ndarray) -> None:
        """Forget the last step of these rows, which did not act."""
        state, index = self._state, torch.as_tensor(rows)
        if state is not None and len(index):
            index = index.to(next(iter(state.values())).device)
            self._state = with_rows(state, index, take_rows(self.before, index))

    def current(self, rows: int) -> TensorTree:
        """Return the state of all `rows` streams, leaves [N, …]."""
        if self._state is None:
            self._state = self._policy.initial_state(rows)
        return self._state

    def some(self, rows: np.ndarray, policy: Policy) -> RowMemory:
        """Return a memory of some streams for another policy, whose state is alike; there is a current state."""
        part, index = RowMemory(policy), torch.from_numpy(rows)
        part.load_state(map_tree(lambda leaf: leaf[index.to(leaf.device)], self.state()))
        return part

    def put(self, rows: np.ndarray, part: RowMemory) -> None:
        """Take over what the result of `some` remembers by now."""
        self.replace(with_rows(self.state(), torch.from_numpy(rows), part.state()))

    def snapshot(self, rows: int) -> Tree:
        """Return a copy of the state of all `rows` streams as arrays, leaves [N, …]."""
        return copy_tree(to_arrays(self.current(rows)))

    def replace(self, leaves: TensorTree) -> None:
        """Replace some leaves [N, …] of the state."""
        self._state = {**(self._state or {}), **leaves}

    def state(self) -> TensorTree:
        """Return the state of all streams; empty before the first step."""
        return varies(dict(self._state or {}), OrEmpty(self._state or {}))

    def load_state(self, state: TensorTree) -> None:
        """Restore the result of `state()`."""
        device = next(self._policy.parameters()).device
        self._state = to_device(state, device) or None
