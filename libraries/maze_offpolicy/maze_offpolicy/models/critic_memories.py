"""Memories of several critics: one for each, or one that all of them share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from maze_core import PluginError
from maze_core.models.blocks import members

if TYPE_CHECKING:
    from collections.abc import Callable

    from maze_core import Sequences, TensorTree
    from maze_core.models.memory import Memory


class CriticMemories(nn.Module):
    """M memories of the critics' features: M critics with one each, or M = 1 that all critics share.

    Args:
        make: builds a memory for features of a width.
        features: their width F.
        count: M.
    """

    def __init__(self, make: Callable[[int], Memory], features: int, count: int) -> None:
        super().__init__()
        memories = [make(features) for _ in range(count)]
        self.memories = nn.ModuleList(memories)
        self.out_features = memories[0].out_features

    def initial_state(self, rows: int) -> TensorTree:
        """Return what is remembered where episodes begin, leaves [rows, …] named `NUMBER/…`."""
        return {
            f"{number}/{key}": leaf
            for number, memory in enumerate(members(self, "memories"))
            for key, leaf in memory.initial_state(rows).items()
        }

    def forward(self, features: Tensor, sequences: Sequences | None) -> Tensor:
        """Features [M, B, F], or [1, B, F] where they are equal, sequence by sequence → [M, B, out_features]."""
        if sequences is None:
            raise PluginError(
                "critics that remember were given rows without their sequences. Next: pass those of `batch.sequences`"
            )
        return torch.stack(
            [memory.unroll(rows, sequences, state) for memory, rows, state in self._each(features, sequences)]
        )

    def after(self, features: Tensor, sequences: Sequences) -> TensorTree:
        """Return what is remembered after each sequence, leaves [S, …] named `NUMBER/…`; arguments as for `forward`."""
        return {
            f"{number}/{key}": leaf
            for number, (memory, rows, state) in enumerate(self._each(features, sequences))
            for key, leaf in memory.after(rows, sequences, state)[1].items()
        }

    def _each(self, features: Tensor, sequences: Sequences) -> list[tuple[Memory, Tensor, TensorTree]]:
        """Return each memory with its features [B, F] and its state before the sequences."""
        seen = features.expand(len(self.memories), -1, -1)
        states: list[TensorTree] = [{} for _ in self.memories]
        for name, leaf in sequences.state.items():
            number, _, key = name.partition("/")
            states[int(number)][key] = leaf
        return list(zip(members(self, "memories"), seen, states, strict=True))
