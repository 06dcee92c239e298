"""The encoder of flat observations: a module that turns an observation tree into features, [B, out_features]."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from maze_core.models.blocks import MLP, Activation
from maze_core.models.inputs import FlatInput

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gymnasium import Space

    from maze_core.base.tree import TensorTree


class MlpEncoder(nn.Module):
    """Leaves without images, flattened or one-hot → concatenated → fully connected layers."""

    def __init__(
        self,
        leaves: Mapping[str, Space[Any]],
        hidden: Sequence[int],
        activation: Activation,
        *,
        layer_norm: bool = False,
    ) -> None:
        super().__init__()
        self.input = FlatInput(leaves)
        self.trunk = MLP(self.input.out_features, hidden, activation, layer_norm=layer_norm)
        self.out_features = self.trunk.out_features

    def forward(self, obs: TensorTree) -> Tensor:
        """Leaves [B, …] → [B, out_features]."""
        modules: Any = self._modules  # as attributes they cost a microsecond
        rows: Tensor = modules["trunk"].forward(modules["input"].forward(obs))
        return rows
