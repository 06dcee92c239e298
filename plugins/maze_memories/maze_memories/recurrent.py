"""The memories `gru` and `lstm`: torch's recurrent networks."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import PackedSequence

from maze_core import PluginConfig, check_room
from maze_core.models.memory import Memory
from maze_core.plugins.config.params import MemoryLayers, MemorySize
from maze_memories.gru_unrolling import unrolled_gru

if TYPE_CHECKING:
    from maze_core import Sequences, TensorTree

N = TypeVar("N", nn.GRU, nn.LSTM)


class RecurrentConfig(PluginConfig):
    """The settings of `gru` and `lstm`."""

    size: MemorySize = 64
    """Units of the memory."""
    layers: MemoryLayers = 1
    """Layers of the memory."""


class GruMemory(Memory):
    """The state of a gated recurrent unit (Cho et al., arXiv 1406.1078)."""

    Config = RecurrentConfig

    def __init__(self, in_features: int, config: RecurrentConfig) -> None:
        super().__init__()
        self.network = _built(nn.GRU, in_features, config)
        self.out_features = config.size

    @property
    def picture_lines(self) -> list[str]:
        """What a picture of the network says: a title and lines."""
        return _lines(self.network)

    def initial_state(self, rows: int) -> TensorTree:
        """Return zeros: `hidden` [rows, layers, size]."""
        return {"hidden": _zeros(self.network, rows)}

    def step(self, features: Tensor, state: TensorTree) -> tuple[Tensor, TensorTree]:
        """Take one row of each stream."""
        hidden: list[Tensor] = []
        for layer, weights in enumerate(self.network.all_weights):
            features = _gru_cell(features, state["hidden"][:, layer], *weights)
            hidden.append(features)
        return features, {"hidden": torch.stack(hidden, 1)}

    def unroll(self, features: Tensor, sequences: Sequences, state: TensorTree) -> Tensor:
        """Take whole sequences, padded: that is fastest."""
        if not len(features):
            return features.new_zeros(0, self.out_features)
        out, hidden = sequences.padded(features), _layers_first(state["hidden"])
        if features.device.type == "cpu" and features.dtype == torch.float32:
            for layer, (w_in, w_hidden, b_in, b_hidden) in enumerate(self.network.all_weights):
                out = unrolled_gru(F.linear(out, w_in, b_in), hidden[layer], w_hidden, b_hidden)
        else:
            out = self.network(out, hidden)[0]
        return sequences.unpadded(out)

    def after(self, features: Tensor, sequences: Sequences, state: TensorTree) -> tuple[Tensor, TensorTree]:
        """Take whole sequences packed, so that torch returns the states after their last rows."""
        rows, (hidden,) = _packed(self.network, features, sequences, state["hidden"])
        return rows, {"hidden": hidden}


class LstmMemory(Memory):
    """The hidden and the cell state of a long short-term memory (Hochreiter and Schmidhuber 1997)."""

    Config = RecurrentConfig

    def __init__(self, in_features: int, config: RecurrentConfig) -> None:
        super().__init__()
        self.network = _built(nn.LSTM, in_features, config)
        self.out_features = config.size

    @property
    def picture_lines(self) -> list[str]:
        """What a picture of the network says: a title and lines."""
        return _lines(self.network)

    def initial_state(self, rows: int) -> TensorTree:
        """Return zeros: `hidden` and `cell`, [rows, layers, size] each."""
        return {"hidden": _zeros(self.network, rows), "cell": _zeros(self.network, rows)}

    def step(self, features: Tensor, state: TensorTree) -> tuple[Tensor, TensorTree]:
        """Take one row of each stream."""
        hidden: list[Tensor] = []
        cells: list[Tensor] = []
        for layer, weights in enumerate(self.network.all_weights):
            features, cell = _lstm_cell(features, state["hidden"][:, layer], state["cell"][:, layer], *weights)
            hidden.append(features)
            cells.append(cell)
        return features, {"hidden": torch.stack(hidden, 1), "cell": torch.stack(cells, 1)}

    def unroll(self, features: Tensor, sequences: Sequences, state: TensorTree) -> Tensor:
        """Take whole sequences, padded: torch's networks are fastest so."""
        if not len(features):
            return features.new_zeros(0, self.out_features)
        begun = _layers_first(state["hidden"]), _layers_first(state["cell"])
        return sequences.unpadded(self.network(sequences.padded(features), begun)[0])

    def after(self, features: Tensor, sequences: Sequences, state: TensorTree) -> tuple[Tensor, TensorTree]:
        """Take whole sequences packed, so that torch returns the states after their last rows."""
        rows, (hidden, cell) = _packed(self.network, features, sequences, state["hidden"], state["cell"])
        return rows, {"hidden": hidden, "cell": cell}


def _built(kind: type[N], in_features: int, config: RecurrentConfig) -> N:
    """Return a network with orthogonal weights and zero biases. Raises ConfigError where there is no room for it."""
    check_room((in_features + config.size) * config.size * 4 * config.layers)
    network = kind(in_features, config.size, config.layers)
    for name, parameter in network.named_parameters():
        nn.init.orthogonal_(parameter) if name.startswith("weight") else nn.init.zeros_(parameter)
    return network


def _lines(network: nn.RNNBase) -> list[str]:
    layers = f"{network.num_layers} layer{'s' if network.num_layers > 1 else ''}"
    return [type(network).__name__, f"{network.input_size} → {network.hidden_size}", layers]


def _zeros(network: nn.RNNBase, rows: int) -> Tensor:
    device = next(network.parameters()).device
    return torch.zeros(rows, network.num_layers, network.hidden_size, device=device)


def _layers_first(leaf: Tensor) -> Tensor:
    """[S, layers, size] → [layers, S, size], as torch's networks have it."""
    return leaf.transpose(0, 1).contiguous()


def _packed(
    network: nn.RNNBase, features: Tensor, sequences: Sequences, *state: Tensor
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Return the features [B, size], sequence by sequence, and the leaves of the state after each sequence."""
    places, sizes, by_length = sequences.packed()
    places, by_length = places.to(features.device), by_length.to(features.device)
    begun = tuple(_layers_first(leaf[by_length]) for leaf in state)
    out, ended = network(PackedSequence(features[places], sizes), begun if len(begun) > 1 else begun[0])
    rows = torch.empty_like(out.data).index_copy(0, places, out.data)
    leaves = ended if isinstance(ended, tuple) else (ended,)
    back = torch.argsort(by_length)
    return rows, tuple(leaf.transpose(0, 1)[back] for leaf in leaves)


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
