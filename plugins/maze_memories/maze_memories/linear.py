"""The memory `linear`: gated linear recurrences, whose sequences are computed at once."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from maze_core import Dense, PluginConfig
from maze_core.models.blocks import members
from maze_core.models.memory import Memory
from maze_core.plugins.config.params import MemoryLayers, MemorySize
from maze_memories.scan import gated_scan

if TYPE_CHECKING:
    from maze_core import Sequences, TensorTree

_LONGEST = 64
"""Steps that the slowest unit remembers at first; the fastest one shows the present. The gates learn others."""


class LinearConfig(PluginConfig):
    """The settings of `linear`."""

    size: MemorySize = 64
    """Units of the memory."""
    layers: MemoryLayers = 1
    """Layers of the memory."""


class LinearMemory(Memory):
    """A gated linear recurrence, which learns long sequences faster than a gru (minGRU, arXiv 2410.01201).

    h_t = f_t h_{t-1} + (1 - f_t) c_t. The forget gate f and the candidate c depend on the input alone (GILR, Martin and
    Cundy, arXiv 1709.04057), so a parallel scan computes all steps of a sequence.
    """

    Config = LinearConfig

    def __init__(self, in_features: int, config: LinearConfig) -> None:
        super().__init__()
        widths = [in_features, *[config.size] * (config.layers - 1)]
        layers = [Dense(width, 2 * config.size) for width in widths]
        self.gates = nn.ModuleList(layers)
        self.out_features, longest = config.size, math.log(_LONGEST)
        for gates in layers:
            for part in gates.weight.data.chunk(2):
                nn.init.orthogonal_(part)
            nn.init.zeros_(gates.bias)
            gates.bias.data[: config.size] = torch.linspace(-longest, longest, config.size)

    @property
    def _first(self) -> Dense:
        return cast(Dense, self.gates[0])

    @property
    def picture_lines(self) -> list[str]:
        """What a picture of the network says: a title and lines."""
        layers = f"{len(self.gates)} layer{'s' if len(self.gates) > 1 else ''}"
        return ["linear recurrence", f"{self._first.in_features} → {self.out_features}", layers]

    def initial_state(self, rows: int) -> TensorTree:
        """Return zeros: `hidden` [rows, layers, size]."""
        device = self._first.weight.device
        return {"hidden": torch.zeros(rows, len(self.gates), self.out_features, device=device)}

    def step(self, features: Tensor, state: TensorTree) -> tuple[Tensor, TensorTree]:
        """Take one row of each stream."""
        hidden: list[Tensor] = []
        for layer, gates in enumerate(members(self, "gates")):
            forget, candidate = gates.forward(features).chunk(2, -1)
            decays, values = torch.sigmoid(forget), torch.tanh(candidate)
            features = values + decays * (state["hidden"][:, layer] - values)
            hidden.append(features)
        return features, {"hidden": torch.stack(hidden, 1)}

    def after(self, features: Tensor, sequences: Sequences, state: TensorTree) -> tuple[Tensor, TensorTree]:
        """Take whole sequences by one scan of all rows, in which nothing is kept where a sequence begins."""
        there = sequences.lengths > 0
        places = (there.nonzero()[0], sequences.starts[there], (sequences.starts + sequences.lengths - 1)[there])
        filled, starts, ends = (torch.from_numpy(each).to(features.device) for each in places)
        hidden: list[Tensor] = []
        for layer, gates in enumerate(members(self, "gates")):
            begun = state["hidden"][:, layer]
            features = gated_scan(gates.forward(features), begun[filled], starts)
            hidden.append(begun.index_copy(0, filled, features[ends]))
        return features, {"hidden": torch.stack(hidden, 1)}
