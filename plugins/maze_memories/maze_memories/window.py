"""The memory `window`: a small transformer that looks at the last rows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from maze_core import Dense, PluginConfig, check_room
from maze_core.models.memory import Memory
from maze_core.plugins.config.params import MemoryLayers, MemorySize, MemoryWindow

if TYPE_CHECKING:
    from maze_core import Sequences, TensorTree

_HEADS = 4


class WindowConfig(PluginConfig):
    """The settings of `window`."""

    size: MemorySize = 64
    """Width of the transformer."""
    layers: MemoryLayers = 1
    """Blocks of attention."""
    window: MemoryWindow = 16
    """Rows that it looks at, the current one included."""


class WindowMemory(Memory):
    """A causal transformer over the last K rows of the episode (Vaswani et al., arXiv 1706.03762; pre-norm).

    Its state is the window: the features of the last K - 1 rows, and how many of them there are.
    """

    Config = WindowConfig

    def __init__(self, in_features: int, config: WindowConfig) -> None:
        super().__init__()
        size, layers, window = config.size, config.layers, config.window
        check_room(12 * size * size * layers + (in_features + window) * size)
        self._window, self.out_features = window, size
        self._inputs = in_features
        self.input = Dense(in_features, size)
        self.ages = nn.Parameter(torch.randn(window, size) * 0.02)
        self.blocks = nn.ModuleList(_Block(size) for _ in range(layers))
        self.norm = nn.LayerNorm(size)
        future = torch.ones(window, window, dtype=torch.bool).triu(1)
        self.register_buffer("_future", future, persistent=False)

    _future: Tensor

    @property
    def picture_lines(self) -> list[str]:
        """What a picture of the network says: a title and lines."""
        blocks = f"{len(self.blocks)} block{'s' if len(self.blocks) > 1 else ''} of attention"
        return ["window", f"the last {self._window} rows", f"{self._inputs} → {self.out_features}", blocks]

    def initial_state(self, rows: int) -> TensorTree:
        """Return an empty window: `window` [rows, K - 1, F], zeros, and `count` [rows] int64."""
        device = self.ages.device
        window = torch.zeros(rows, self._window - 1, self._inputs, device=device)
        return {"window": window, "count": torch.zeros(rows, dtype=torch.int64, device=device)}

    def step(self, features: Tensor, state: TensorTree) -> tuple[Tensor, TensorTree]:
        """Take one row of each stream."""
        window = torch.cat([state["window"], features.unsqueeze(1)], 1)
        known = state["count"] + 1
        return self._look(window, known), {"window": window[:, 1:], "count": known.clamp(max=self._window - 1)}

    def after(self, features: Tensor, sequences: Sequences, state: TensorTree) -> tuple[Tensor, TensorTree]:
        """Take whole sequences: each row looks at a window of its own. Gradients reach the state."""
        device, past = features.device, self._window - 1
        lengths = torch.from_numpy(sequences.lengths).to(device)
        numbers = torch.arange(len(lengths), device=device)
        sequence = numbers.repeat_interleave(lengths)
        starts = lengths.cumsum(0) - lengths
        # The windows before the sequences, then all rows: a row's window is a run of places in its sequence's part.
        place = torch.arange(len(features), device=device) - starts[sequence]
        back = torch.arange(-past, 1, device=device)
        at = self._sources(place[:, None] + back, sequence[:, None], starts, len(lengths))
        everything = torch.cat([state["window"].flatten(0, 1), features])
        known = (state["count"][sequence] + place + 1).clamp(max=self._window)
        out = self._look(everything[at], known)
        last = self._sources((lengths - 1)[:, None] + back[1:], numbers[:, None], starts, len(lengths))
        return out, {"window": everything[last], "count": (state["count"] + lengths).clamp(max=past)}

    def _sources(self, places: Tensor, sequence: Tensor, starts: Tensor, count: int) -> Tensor:
        """Return where the rows at some places of their sequences are; negative places are before the sequence."""
        past = self._window - 1
        return torch.where(places < 0, sequence * past + past + places, count * past + starts[sequence] + places)

    def _look(self, window: Tensor, known: Tensor) -> Tensor:
        """Windows [B, K, F], of which the last `known` [B] rows exist → [B, size]."""
        missing = torch.arange(self._window, device=window.device) < self._window - known[:, None]
        rows = self.input.forward(window) + self.ages
        # A row that does not exist sees itself alone: a softmax over nothing has no value.
        blocked = (self._future | missing[:, None, :]) & ~torch.eye(self._window, dtype=torch.bool, device=rows.device)
        for block in self.blocks[:-1]:
            rows = block(rows, rows, blocked)
        out: Tensor = self.blocks[-1](rows[:, -1:], rows, blocked[:, -1:])  # only the newest row is asked for
        newest: Tensor = self.norm(out.squeeze(1))
        return newest


class _Block(nn.Module):
    """Attention and two fully connected layers, each after a layer norm and around a shortcut."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._heads = next(heads for heads in (_HEADS, 2, 1) if size % heads == 0)
        self.norm, self.second_norm = nn.LayerNorm(size), nn.LayerNorm(size)
        self.query, self.keys_values, self.out = Dense(size, size), Dense(size, 2 * size), Dense(size, size)
        self.wide, self.narrow = Dense(size, 4 * size), Dense(4 * size, size)

    def forward(self, asking: Tensor, rows: Tensor, blocked: Tensor) -> Tensor:
        """Rows that ask [B, Q, D], rows [B, K, D], what must not be seen [B, Q, K] → [B, Q, D]."""
        seen = self.norm(rows)
        keys, values = self._by_head(self.keys_values.forward(seen)).chunk(2, -1)
        queries = self._by_head(self.query.forward(self.norm(asking)))
        scores = queries @ keys.transpose(-1, -2) / math.sqrt(queries.shape[-1])
        weights = scores.masked_fill(blocked.unsqueeze(1), -math.inf).softmax(-1)
        attended: Tensor = asking + self.out.forward((weights @ values).transpose(1, 2).flatten(2))
        return attended + self.narrow.forward(F.gelu(self.wide.forward(self.second_norm(attended))))

    def _by_head(self, leaf: Tensor) -> Tensor:
        """[B, K, …] → [B, heads, K, …]."""
        return leaf.reshape(*leaf.shape[:2], self._heads, -1).transpose(1, 2)
