"""Segments drawn from replay: rows that follow each other, what is remembered before them, and what follows them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from maze_core.base.tree import subtree
from maze_core.data.sequences import Sequences, TensorTree

if TYPE_CHECKING:
    from torch import Tensor

    from maze_core.data.batch import Batch

POLICY = "policy"
"""The network whose memory is `Sequences.state`."""


@dataclass(slots=True)
class ReplayedSequences(Sequences):
    """The sequences of a batch from replay, each with the observation after its last row.

    `following` says where the observation after each row is: `n_step` rows later, earlier at the end of its sequence.
    A network reads `obs` as one sequence of its own, so what it remembers of a following observation is what it
    remembers after the row before it, also where a time limit cut the episode.
    """

    obs: TensorTree = field(default_factory=dict)
    """The rows of each sequence and the observation after its last one, leaves [B + S, …]."""
    memories: TensorTree = field(default_factory=dict)
    """What each network remembers before the first rows, leaves [S, …] named `NETWORK/…`."""
    following: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))
    """[B] int64, the places in `obs` of the observations that follow the rows."""

    def of(self, network: str) -> Sequences:
        """Return the sequences with what a network remembers before them, for the rows of the batch."""
        return Sequences(self.lengths, subtree(self.memories, f"{network}/"))

    def beyond(self, network: str) -> Sequences:
        """Return the sequences with what a network remembers before them, for all rows of `obs`."""
        return Sequences(self.lengths + 1, subtree(self.memories, f"{network}/"))


def replayed(batch: Batch) -> ReplayedSequences | None:
    """Return the sequences of a batch from replay; None for policies without memory."""
    sequences = batch.sequences
    return sequences if isinstance(sequences, ReplayedSequences) else None
