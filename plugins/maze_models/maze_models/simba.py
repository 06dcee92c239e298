"""The model `simba`: residual blocks with layer normalisation on flat, normalised observations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import torch
from pydantic import Field
from torch import Tensor, nn

from maze_core import Dense, Plugin, hookimpl
from maze_core.models.assembly import ModelConfig, assemble_policy
from maze_core.models.inputs import FlatInput, flat_spaces
from maze_core.plugins.config.counting import CountsWith
from maze_core.plugins.config.params import Width
from maze_models.scored_choices import Summaries

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gymnasium import Space

    from maze_core import Policy, TensorTree

_EXPANSION = 4
"""Hidden units of a block, in widths."""


class SimbaConfig(ModelConfig):
    """The parameters of `simba`."""

    width: Width = 128
    """Units between the blocks; each block has four times as many inside."""
    critic_width: Annotated[Width | None, CountsWith("critic", "separate")] = None
    """`width` of a separate critic; none: that of the policy."""
    blocks: Annotated[int, Field(ge=1, le=100)] = 1
    """Number of residual blocks."""
    normalize_observations: bool = True
    """Scale float observations by their running mean and standard deviation."""


class ResidualBlock(nn.Module):
    """x + a layer of four times the width on its layer norm: [B, width] → [B, width]."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.wide, self.narrow = Dense(width, _EXPANSION * width), Dense(_EXPANSION * width, width)

    def forward(self, features: Tensor) -> Tensor:
        """[B, width] → [B, width]."""
        return features + self.narrow.forward(torch.relu_(self.wide.forward(self.norm(features))))


class SimbaEncoder(nn.Module):
    """Leaves without images → a linear layer → residual blocks → layer norm (Lee et al., arXiv 2410.09754, section 4).

    The first layer starts orthogonal and the blocks with He's normal weights, as in the paper.
    """

    def __init__(self, leaves: Mapping[str, Space[Any]], width: int, blocks: int) -> None:
        super().__init__()
        self.input = FlatInput(leaves)
        self.embedding = Dense(self.input.out_features, width)
        self.blocks = nn.ModuleList(ResidualBlock(width) for _ in range(blocks))
        self.norm = nn.LayerNorm(width)
        self.out_features = width
        nn.init.orthogonal_(self.embedding.weight)
        for layer in self.modules():
            if isinstance(layer, nn.Linear):
                if layer is not self.embedding:
                    nn.init.kaiming_normal_(layer.weight)
                nn.init.zeros_(layer.bias)

    def forward(self, obs: TensorTree) -> Tensor:
        """Leaves [B, …] → [B, width]."""
        features = self.embedding.forward(self.input.forward(obs))
        for block in self.blocks:
            features = block(features)
        normalized: Tensor = self.norm(features)
        return normalized


class SimbaModel(Plugin):
    """Residual policy and critic with layer norm, for any observation without images (SimBa)."""

    Config = SimbaConfig

    @hookimpl
    def build_policy(self, observation_space: Space[Any], action_space: Space[Any], config: SimbaConfig) -> Policy:
        """Build the policy. Raises ConfigError where an observation is an image."""
        summaries = Summaries(observation_space, action_space, config)
        leaves, seen_by_critic = flat_spaces(observation_space, action_space, config.name, summaries)
        width = config.critic_width or config.width
        return assemble_policy(
            observation_space,
            action_space,
            config,
            lambda: summaries.before(SimbaEncoder(leaves, config.width, config.blocks)),
            make_critic_encoder=lambda: summaries.before(SimbaEncoder(seen_by_critic, width, config.blocks)),
            initialize_encoders=False,
        )
