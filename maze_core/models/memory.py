"""Memory: modules between encoder and heads that carry a state from row to row."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import PackedSequence

from maze_core.models.blocks import Dense, check_room
from maze_core.models.gru import unrolled_gru

if TYPE_CHECKING:
    from maze_core.base.tree import TensorTree
    from maze_core.data.sequences import Sequences

MemoryKind = Literal["none", "gru", "lstm", "window"]
MemorySize = Annotated[int, Field(gt=0, le=8192)]
MemoryLayers = Annotated[int, Field(gt=0, le=16)]
MemoryWindow = Annotated[int, Field(gt=1, le=1024)]
_HEADS = 4


class Memory(nn.Module):
    """Features of rows → features that also depend on the rows before them in the episode.

    The state of a row is a tree of tensors with the rows first. An episode begins with `initial_state`.
    """

    out_features: int

    @abstractmethod
    def initial_state(self, rows: int) -> TensorTree:
        """Return the state at the beginning of an episode, leaves [rows, …]."""

    @abstractmethod
    def step(self, features: Tensor, state: TensorTree) -> tuple[Tensor, TensorTree]:
        """Take one row of each stream: features [B, F], state leaves [B, …] → [B, out_features], the next state."""

    @abstractmethod
    def unroll(self, features: Tensor, sequences: Sequences, state: TensorTree) -> Tensor:
        """Take whole sequences: the same as `step` row by row.

        Args:
            features: [B, F], sequence by sequence.
            sequences: the lengths of the S sequences.
            state: before the first row of each sequence, leaves [S, …].

        Returns:
            [B, out_features], sequence by sequence.
        """

    @abstractmethod
    def after(self, features: Tensor, sequences: Sequences, state: TensorTree) -> tuple[Tensor, TensorTree]:
        """Return the result of `unroll`, and the state after the last row of each sequence, leaves [S, …].

        Slower; gradients do not reach the state.
        """


class RecurrentMemory(Memory):
    """A gated recurrent unit (Cho et al., arXiv 1406.1078) or a long short-term memory (Hochreiter et al. 1997)."""

    def __init__(self, kind: Literal["gru", "lstm"], in_features: int, size: int, layers: int) -> None:
        super().__init__()
        check_room((in_features + size) * size * 4 * layers)
        network = nn.GRU if kind == "gru" else nn.LSTM
        self.network = network(in_features, size, layers)
        self.out_features, self._layers = size, layers
        self._keys = ("hidden",) if kind == "gru" else ("hidden", "cell")
        for name, parameter in self.network.named_parameters():
            nn.init.orthogonal_(parameter) if name.startswith("weight") else nn.init.zeros_(parameter)

    @property
    def picture_lines(self) -> list[str]:
        """What a picture of the network says: a title and lines."""
        size = f"{self.network.input_size} → {self.out_features}"
        return [type(self.network).__name__, size, f"{self._layers} layer{'s' if self._layers > 1 else ''}"]

    def initial_state(self, rows: int) -> TensorTree:
        """Return zeros, leaves [rows, layers, size]."""
        return {key: torch.zeros(rows, self._layers, self.out_features, device=self._device) for key in self._keys}

    def step(self, features: Tensor, state: TensorTree) -> tuple[Tensor, TensorTree]:
        """Take one row of each stream."""
        hidden: list[Tensor] = []
        cells: list[Tensor] = []
        for layer, weights in enumerate(self.network.all_weights):
            if "cell" in state:
                pair = (state["hidden"][:, layer], state["cell"][:, layer])
                features, cell = _lstm_cell(features, *pair, *weights)
                cells.append(cell)
            else:
                features = _gru_cell(features, state["hidden"][:, layer], *weights)
            hidden.append(features)
        parts = (hidden, cells) if cells else (hidden,)
        return features, {key: torch.stack(part, 1) for key, part in zip(self._keys, parts, strict=True)}

    def unroll(self, features: Tensor, sequences: Sequences, state: TensorTree) -> Tensor:
        """Take whole sequences, padded: torch's networks are fastest so."""
        longest, count = int(sequences.lengths.max(initial=0)), len(sequences)
        if longest == 0:
            return features.new_zeros(0, self.out_features)
        numbers = np.repeat(np.arange(count), sequences.lengths)
        times = np.arange(len(numbers)) - sequences.starts[numbers]
        places = torch.from_numpy(times * count + numbers).to(features.device)
        padded = features.new_zeros(longest * count, features.shape[-1]).index_copy(0, places, features)
        padded = padded.reshape(longest, count, -1)
        begun = tuple(state[key].transpose(0, 1).contiguous() for key in self._keys)
        if len(begun) > 1:
            out: Tensor = self.network(padded, begun)[0]
        elif features.device.type == "cpu" and features.dtype == torch.float32:
            out = padded
            for layer, (w_in, w_hidden, b_in, b_hidden) in enumerate(self.network.all_weights):
                out = unrolled_gru(F.linear(out, w_in, b_in), begun[0][layer], w_hidden, b_hidden)
        else:
            out = self.network(padded, begun[0])[0]
        return out.flatten(0, 1).index_select(0, places)

    def after(self, features: Tensor, sequences: Sequences, state: TensorTree) -> tuple[Tensor, TensorTree]:
        """Take whole sequences packed, so that torch returns the states after their last rows."""
        places, sizes, by_length = sequences.packed()
        places, by_length = places.to(features.device), by_length.to(features.device)
        begun = tuple(state[key][by_length].transpose(0, 1).contiguous() for key in self._keys)
        packed = PackedSequence(features[places], sizes)
        out, ended = self.network(packed, begun if len(begun) > 1 else begun[0])
        rows = torch.empty_like(out.data).index_copy(0, places, out.data)
        leaves = ended if isinstance(ended, tuple) else (ended,)
        back = torch.argsort(by_length)
        return rows, {key: leaf.transpose(0, 1)[back] for key, leaf in zip(self._keys, leaves, strict=True)}

    @property
    def _device(self) -> torch.device:
        return next(self.parameters()).device


class WindowMemory(Memory):
    """A causal transformer over the last K rows of the episode (Vaswani et al., arXiv 1706.03762; pre-norm).

    Its state is the window: the features of the last K - 1 rows, and how many of them there are.
    """

    def __init__(self, in_features: int, size: int, layers: int, window: int) -> None:
        super().__init__()
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

    def unroll(self, features: Tensor, sequences: Sequences, state: TensorTree) -> Tensor:
        """Take whole sequences: each row looks at a window of its own."""
        return self.after(features, sequences, state)[0]

    def after(self, features: Tensor, sequences: Sequences, state: TensorTree) -> tuple[Tensor, TensorTree]:
        """Take whole sequences; also return the windows after their last rows."""
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


def _gru_cell(features: Tensor, hidden: Tensor, *weights: Tensor) -> Tensor:
    """One step of `nn.GRU`, [B, F] and [B, H] → [B, H]; written out, so that it can be vectorised over parameters."""
    w_in, w_hidden, b_in, b_hidden = weights
    reset_in, update_in, new_in = F.linear(features, w_in, b_in).chunk(3, -1)
    reset_hidden, update_hidden, new_hidden = F.linear(hidden, w_hidden, b_hidden).chunk(3, -1)
    update = torch.sigmoid(update_in + update_hidden)
    new = torch.tanh(new_in + torch.sigmoid(reset_in + reset_hidden) * new_hidden)
    return new + update * (hidden - new)


def _lstm_cell(features: Tensor, hidden: Tensor, cell: Tensor, *weights: Tensor) -> tuple[Tensor, Tensor]:
    """One step of `nn.LSTM`: hidden and cell, both [B, H]."""
    w_in, w_hidden, b_in, b_hidden = weights
    gates = F.linear(features, w_in, b_in) + F.linear(hidden, w_hidden, b_hidden)
    write, keep, new, show = gates.chunk(4, -1)
    after = torch.sigmoid(keep) * cell + torch.sigmoid(write) * torch.tanh(new)
    return torch.sigmoid(show) * torch.tanh(after), after


def remembers(policy: nn.Module) -> bool:
    """Return `policy.remembers`: True where the rows before a row decide too. Policies without memory may lack it."""
    return bool(getattr(policy, "remembers", False))


def build_memory(kind: MemoryKind, in_features: int, size: int, layers: int, window: int) -> Memory | None:
    """Return the memory of a configuration; None where there is none."""
    if kind == "none":
        return None
    if kind == "window":
        return WindowMemory(in_features, size, layers, window)
    return RecurrentMemory(kind, in_features, size, layers)
