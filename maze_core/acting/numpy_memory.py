"""Gated cells in numpy, for a few rows: there torch's overhead is several times the arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from maze_core.acting.memory import RowMemory
    from maze_core.models.memory import RecurrentMemory


class NumpyMemory:
    """Steps a GRU or LSTM as `RecurrentMemory.step` does; the arrays share the parameters' memory.

    Args:
        network: the module.
        rows: what the policy remembers of the rows it acts in.
    """

    def __init__(self, network: RecurrentMemory, rows: RowMemory) -> None:
        self._rows = rows
        weights = [[p.detach().numpy() for p in layer] for layer in network.network.all_weights]
        self._layers = [(w_in.T, w_hidden.T, b_in, b_hidden) for w_in, w_hidden, b_in, b_hidden in weights]
        self._is_lstm = isinstance(network.network, torch.nn.LSTM)

    def step(self, features: np.ndarray) -> np.ndarray:
        """Features [B, F] → [B, size]; the state of the rows advances."""
        state = self._rows.current(len(features))
        hidden = state["policy/hidden"].numpy()
        after = np.empty_like(hidden)
        cells = state["policy/cell"].numpy() if self._is_lstm else None
        cells_after = None if cells is None else np.empty_like(cells)
        for layer, (w_in, w_hidden, b_in, b_hidden) in enumerate(self._layers):
            before = hidden[:, layer]
            inner = np.dot(features, w_in)
            inner += b_in
            recurrent = np.dot(before, w_hidden)
            recurrent += b_hidden
            if cells is None or cells_after is None:
                features = _gru(inner, recurrent, before)
            else:
                features, cells_after[:, layer] = _lstm(inner, recurrent, cells[:, layer])
            after[:, layer] = features
        leaves = {"policy/hidden": torch.from_numpy(after)}
        if cells_after is not None:
            leaves["policy/cell"] = torch.from_numpy(cells_after)
        self._rows.replace(leaves)
        return features


def _gru(inner: np.ndarray, recurrent: np.ndarray, hidden: np.ndarray) -> np.ndarray:
    """Inputs and recurrent terms [B, 3 * H] of reset, update and new, state [B, H] → the next state."""
    size = hidden.shape[-1]
    gates = _sigmoid(inner[:, : 2 * size] + recurrent[:, : 2 * size])
    new = recurrent[:, 2 * size :]
    new *= gates[:, :size]
    new += inner[:, 2 * size :]
    np.tanh(new, new)
    after: np.ndarray = new + gates[:, size:] * (hidden - new)
    return after


def _lstm(inner: np.ndarray, recurrent: np.ndarray, cell: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and recurrent terms [B, 4 * H] of input, forget, cell and output gate, cell [B, H] → hidden, cell."""
    size = cell.shape[-1]
    total = inner + recurrent
    gates = _sigmoid(total)
    after = gates[:, size : 2 * size] * cell + gates[:, :size] * np.tanh(total[:, 2 * size : 3 * size])
    return gates[:, 3 * size :] * np.tanh(after), after


def _sigmoid(values: np.ndarray) -> np.ndarray:
    """As tanh, which does not overflow."""
    out = np.tanh(values * np.float32(0.5))
    out *= np.float32(0.5)
    out += np.float32(0.5)
    return out
