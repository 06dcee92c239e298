"""The model `mlp`: fully connected layers on flat observations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from maze_core.models.assembly import ModelConfig, assemble_policy, for_critic
from maze_core.models.blocks import Activation
from maze_core.models.distributions.chosen import of_scored_choices
from maze_core.models.inputs import MlpEncoder, flat_spaces
from maze_core.plugins.base import Plugin
from maze_core.plugins.config.params import CriticHidden, Hidden
from maze_core.plugins.hookspecs import hookimpl

if TYPE_CHECKING:
    from gymnasium import Space
    from torch import nn

    from maze_core.models.policy import Policy


class MlpConfig(ModelConfig):
    """The parameters of `mlp`."""

    hidden: Hidden = (64, 64)
    """Units of each fully connected layer before the heads."""
    critic_hidden: CriticHidden = None
    activation: Activation = "tanh"
    """Activation of the fully connected layers."""
    layer_norm: bool = False
    """Normalise the outputs of each of these layers before its activation (Ba et al., arXiv 1607.06450)."""


class MlpModel(Plugin):
    """Fully connected policy and critic for any observation without images."""

    Config = MlpConfig

    @hookimpl
    def build_policy(self, observation_space: Space[Any], action_space: Space[Any], config: MlpConfig) -> Policy:
        """Build the policy. Raises ConfigError where an observation is an image."""
        summaries: Any = None
        if config.choice_features:
            summaries = of_scored_choices("summaries")(observation_space, action_space, config)
        leaves, seen_by_critic = flat_spaces(observation_space, action_space, config.name, summaries)

        def encoder(seen: dict[str, Space[Any]] = leaves, its: MlpConfig = config) -> nn.Module:
            built = MlpEncoder(seen, its.hidden, its.activation, layer_norm=its.layer_norm)
            return built if summaries is None else summaries.before(built)

        return assemble_policy(
            observation_space,
            action_space,
            config,
            encoder,
            make_critic_encoder=lambda: encoder(seen_by_critic, for_critic(config)),
        )
