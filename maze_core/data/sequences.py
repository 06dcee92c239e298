"""Sequences: which rows follow each other, for policies that remember."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from maze_core.base.tree import TensorTree, map_tree, select_rows, subtree

POLICY = "policy"
"""The name of the network whose memory is `Sequences.state` among those of `Sequences.memories`."""
_NOTHING = torch.zeros(0, dtype=torch.int64)


@dataclass(slots=True)
class Sequences:
    """S sequences of rows, none of which crosses the beginning of an episode.

    The B rows of a batch lie sequence by sequence, each in order of time, or `order` says where they are.

    Sequences from replay come with the observation after their last row. `following` says where the observation after
    each row is: `n_step` rows later, earlier at the end of its sequence. A network reads `obs` as one sequence of its
    own, so what it remembers of a following observation is what it remembers after the row before it, also where a time
    limit cut the episode.
    """

    lengths: np.ndarray
    """[S] int64, rows of each sequence; their sum is B."""
    state: TensorTree
    """The policy's memory before the first row of each sequence, leaves [S, …]."""
    order: Tensor | None = None
    """[B] int64, row numbers sequence by sequence; None: 0, 1, 2, …"""
    obs: TensorTree = field(default_factory=dict)
    """From replay: the rows of each sequence and the observation after its last one, leaves [B + S, …]; else empty."""
    memories: TensorTree = field(default_factory=dict)
    """From replay: what each network remembers before the first rows, leaves [S, …] named `NETWORK/…`; else empty."""
    following: Tensor = _NOTHING
    """From replay: [B] int64, the places in `obs` of the observations that follow the rows; else empty."""

    @classmethod
    def of_networks(cls, lengths: np.ndarray, memories: TensorTree) -> Sequences:
        """Return sequences with what networks remember before them, leaves [S, …] named `NETWORK/…`."""
        return cls(lengths, subtree(memories, f"{POLICY}/"), memories=memories)

    def __len__(self) -> int:
        """Return the number of sequences S."""
        return len(self.lengths)

    @property
    def starts(self) -> np.ndarray:
        """The places of the first rows, [S], sequence by sequence."""
        starts: np.ndarray = np.cumsum(self.lengths) - self.lengths
        return starts

    def map(self, function: Callable[[Tensor], Tensor]) -> Sequences:
        """Return the sequences with `function` applied to every tensor, such as a move to another device."""
        order, following = None if self.order is None else function(self.order), function(self.following)
        obs, memories = map_tree(function, self.obs), map_tree(function, self.memories)
        state = subtree(memories, f"{POLICY}/") if memories else map_tree(function, self.state)
        return Sequences(self.lengths, state, order, obs, memories, following)

    def alone(self, chosen: np.ndarray) -> Sequences:
        """Return some of the sequences, by their numbers, for a batch of their rows alone, one after the other."""
        return Sequences(self.lengths[chosen], select_rows(self.state, torch.from_numpy(chosen)))

    def of(self, network: str) -> Sequences:
        """Return the sequences with what a network remembers before them, for the rows of a batch from replay."""
        return Sequences(self.lengths, subtree(self.memories, f"{network}/"))

    def beyond(self, network: str) -> Sequences:
        """Return the sequences with what a network remembers before them, for all rows of `obs`."""
        return Sequences(self.lengths + 1, subtree(self.memories, f"{network}/"))

    def ordered(self, leaf: Tensor) -> Tensor:
        """Return a leaf [B, …] sequence by sequence."""
        return leaf if self.order is None else leaf[self.order]

    def restored(self, leaf: Tensor) -> Tensor:
        """Return a leaf that lies sequence by sequence in the order of the batch: undoes `ordered`."""
        if self.order is None:
            return leaf
        inverse = torch.empty_like(self.order)
        inverse[self.order] = torch.arange(len(self.order), device=self.order.device)
        return leaf[inverse]

    def padded(self, leaf: Tensor) -> Tensor:
        """Return a leaf [B, …] that lies sequence by sequence by time: [L, S, …], zeros after a sequence's end."""
        longest, count = int(self.lengths.max(initial=0)), len(self)
        padded = leaf.new_zeros(longest * count, *leaf.shape[1:]).index_copy(0, self._places(leaf.device), leaf)
        return padded.reshape(longest, count, *leaf.shape[1:])

    def unpadded(self, leaf: Tensor) -> Tensor:
        """Return a leaf [L, S, …] sequence by sequence, [B, …]: undoes `padded`."""
        return leaf.flatten(0, 1).index_select(0, self._places(leaf.device))

    def _places(self, device: torch.device) -> Tensor:
        """Return where each row lies among the L * S rows of `padded`, [B]."""
        numbers = np.repeat(np.arange(len(self)), self.lengths)
        times = np.arange(len(numbers)) - self.starts[numbers]
        return torch.from_numpy(times * len(self) + numbers).to(device)

    def packed(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the layout of torch's recurrent networks, which step all sequences at once.

        Returns:
            [B], the place of each packed row; [L], rows of each time step; [S], sequences by falling length.
        """
        by_length = np.argsort(-self.lengths, kind="stable")
        lengths, times = self.lengths[by_length], np.arange(int(self.lengths.max(initial=0)))[:, None]
        # [L, S]: which sequences go on at a time step. Row by row, that is the order of packed rows.
        there = times < lengths
        places = (self.starts[by_length] + times)[there]
        return torch.from_numpy(places), torch.from_numpy(there.sum(1)), torch.from_numpy(by_length)
