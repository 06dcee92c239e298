"""Self-attention over a set."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from maze_core import Dense
from maze_core.models.blocks import Activation, activation_function


class AttentionLayer(nn.Module):
    """Self-attention and a dense layer, each with a residual connection after a layer normalisation."""

    def __init__(self, width: int, heads: int, activation: Activation) -> None:
        super().__init__()
        self.before_attention, self.before_dense = nn.LayerNorm(width), nn.LayerNorm(width)
        self.inputs, self.output = Dense(width, 3 * width), Dense(width, width)
        self.dense, self.back = Dense(width, 2 * width), Dense(2 * width, width)
        self._heads = heads
        self._activate = activation_function(activation)

    def forward(self, elements: Tensor, present: Tensor) -> Tensor:
        """Elements [B, N, E], bool present [B, N] → [B, N, E]; nothing is read from elements that are not there."""
        elements = elements + self.output.forward(self._attend(self.before_attention(elements), present))
        return elements + self.back.forward(self._activate(self.dense.forward(self.before_dense(elements))))

    def _attend(self, elements: Tensor, present: Tensor) -> Tensor:
        batch, count, width = elements.shape
        parts = self.inputs.forward(elements).reshape(batch, count, 3, self._heads, -1).permute(2, 0, 3, 1, 4)
        queries, keys, values = parts.unbind(0)
        # A large number instead of -inf: a row in which nothing is there has no NaN.
        hidden = torch.where(present, 0.0, -1e9).to(elements.dtype)[:, None, None, :]
        read = F.scaled_dot_product_attention(queries, keys, values, attn_mask=hidden.expand(-1, -1, count, -1))
        return read.transpose(1, 2).reshape(batch, count, width)
