"""Pieces of a rollout: the stretches in which rows follow each other, for policies that remember."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from maze_core import Sequences, take_rows, to_tensors
from maze_core.base.tree import flat_rows

if TYPE_CHECKING:
    from maze_core import Policy, Rollout, TensorTree


@dataclass(slots=True)
class Pieces:
    """The stretches of a rollout [T, N] in which rows follow each other; P of them, column by column.

    A piece ends where its episode ends, before a row that is not valid, and at the rollout's end.
    """

    columns: np.ndarray
    """[P] int64, the column."""
    first: np.ndarray
    """[P] int64, the step of the first row."""
    lengths: np.ndarray
    """[P] int64"""

    @classmethod
    def of(cls, valid: np.ndarray, ended: np.ndarray) -> Pieces:
        """Cut steps into pieces. `valid`, `ended`: [T, N] bool."""
        steps = len(valid)
        fresh = np.ones_like(valid)
        fresh[1:] = ended[:-1] | ~valid[:-1]
        begins = np.flatnonzero((fresh & valid).T)
        rows = np.concatenate([[0], np.cumsum(valid.T)])
        lengths = np.diff(np.append(rows[begins], rows[-1]))
        return cls(begins // steps, begins % steps, lengths)

    def rows(self, num_columns: int) -> np.ndarray:
        """Return the numbers of the rows, t * N + column, piece by piece."""
        places = np.arange(self.lengths.sum()) - np.repeat(np.cumsum(self.lengths) - self.lengths, self.lengths)
        rows: np.ndarray = (np.repeat(self.first, self.lengths) + places) * num_columns + np.repeat(
            self.columns, self.lengths
        )
        return rows

    def states(self, fresh: TensorTree, memory: TensorTree) -> TensorTree:
        """Return the memory before each piece: `memory` (leaves [N, …]) where it begins with the rollout.

        `fresh`: the memory at an episode's start, leaves [P, …]; it is changed in place.
        """
        begun = torch.from_numpy(np.flatnonzero(self.first == 0))
        columns = torch.from_numpy(self.columns[self.first == 0])
        for key, leaf in fresh.items():
            leaf[begun.to(leaf.device)] = memory[key][columns].to(leaf.device)
        return fresh


def following_rows(rollout: Rollout, pieces: Pieces) -> np.ndarray:
    """Return, for each piece, the number of the observation after its last row; -1 where the episode terminated.

    Observations are numbered t * N + column for t = 0 … T, then the final observations of `rollout.truncations`.
    """
    steps, columns = rollout.rewards.shape
    last = pieces.first + pieces.lengths - 1
    rows = (last + 1) * columns + pieces.columns
    rows[rollout.terminated[last, pieces.columns]] = -1
    final = np.full((steps, columns), -1)
    count = (steps + 1) * columns
    for t, indices, _ in rollout.truncations:
        final[t, indices] = count + np.arange(len(indices))
        count += len(indices)
    cut = final[last, pieces.columns]
    followed: np.ndarray = np.where(cut >= 0, cut, rows)
    return followed


def critic_memory_after(policy: Policy, rollout: Rollout) -> TensorTree:
    """Return what the critic alone remembers after a rollout, leaves [N, …]: it does not act, so it reads it now.

    Columns without a valid row keep what they remembered before; those whose last episode ended remember nothing.
    """
    valid, ended = rollout.valid, rollout.terminated | rollout.truncated
    pieces = Pieces.of(valid, ended)
    if not len(pieces.columns):  # nobody acted, or all actions are open
        return {}
    # Of each environment only the last piece counts.
    last = np.flatnonzero(np.append(pieces.columns[1:] != pieces.columns[:-1], True)[: len(pieces.columns)])
    pieces = Pieces(pieces.columns[last], pieces.first[last], pieces.lengths[last])
    rows = pieces.rows(valid.shape[1])
    device = next(policy.parameters()).device
    flat = to_tensors(take_rows(flat_rows(rollout.obs), rows), device)
    memory = to_tensors(rollout.memory)
    state = pieces.states(policy.initial_state(len(pieces.columns)), memory)
    with torch.inference_mode():
        after = policy.critic_state(flat, Sequences(pieces.lengths, state))
    fresh = policy.initial_state(len(pieces.columns))
    over = torch.from_numpy(ended[pieces.first + pieces.lengths - 1, pieces.columns])
    for key, leaf in after.items():
        columns = torch.from_numpy(pieces.columns).to(leaf.device)
        rest = torch.where(over.to(leaf.device).reshape(-1, *[1] * (leaf.ndim - 1)), fresh[key], leaf)
        after[key] = memory[key].to(leaf.device).index_copy(0, columns, rest)
    return after
