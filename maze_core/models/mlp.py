"""The model `mlp`: fully connected layers on flat observations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from maze_core.errors import ConfigError
from maze_core.models.assembly import ModelConfig, assemble_policy
from maze_core.models.blocks import MLP, initialize_orthogonal
from maze_core.models.inputs import FlatInput, input_spaces, is_image
from maze_core.plugins.base import Plugin
from maze_core.plugins.hookspecs import hookimpl

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gymnasium import Space

    from maze_core.data.batch import TensorTree
    from maze_core.models.policy import Policy


class MlpEncoder(nn.Module):
    """All leaves, flattened or one-hot → concatenated → fully connected layers, [B, out_features]."""

    def __init__(self, leaves: Mapping[str, Space[Any]], config: ModelConfig) -> None:
        super().__init__()
        self.input = FlatInput(leaves)
        self.trunk = MLP(self.input.out_features, config.hidden, config.activation)
        self.out_features = self.trunk.out_features
        # Looking a module up as an attribute costs a microsecond; a tuple costs nothing.
        self._steps = (self.input, self.trunk)
        if config.orthogonal_init:
            initialize_orthogonal(self.trunk)

    def forward(self, obs: TensorTree) -> Tensor:
        """Leaves [B, …] → [B, out_features]."""
        inputs, trunk = self._steps
        return trunk.forward(inputs.forward(obs))


class MlpModel(Plugin):
    """Fully connected policy and critic for any observation without images."""

    Config = ModelConfig
    config: ModelConfig

    @hookimpl
    def build_policy(self, observation_space: Space[Any], action_space: Space[Any], config: ModelConfig) -> Policy:
        """Build the policy. ConfigError where an observation is an image."""
        leaves = input_spaces(observation_space, action_space)
        for key, space in leaves.items():
            if is_image(space):
                raise ConfigError(
                    f"the model mlp does not take images, but observation {key!r} has shape {space.shape}",
                    where="model.name",
                    hint="Use the model cnn (one image) or template (several leaves), or flatten it with a wrapper.",
                )
        return assemble_policy(observation_space, action_space, config, lambda: MlpEncoder(leaves, config))
