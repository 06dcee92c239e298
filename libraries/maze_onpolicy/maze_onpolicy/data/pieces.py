"""Pieces of a rollout: the stretches in which rows follow each other, for policies that remember."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from maze_core import Rollout, TensorTree


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
