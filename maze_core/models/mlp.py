"""The model `mlp`: fully connected layers on flat observations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from maze_core.config.params import Hidden
from maze_core.errors import ConfigError
from maze_core.models.assembly import ModelConfig, assemble_policy
from maze_core.models.blocks import Activation
from maze_core.models.encoders import MlpEncoder
from maze_core.models.inputs import critic_spaces, input_spaces, is_image
from maze_core.plugins.base import Plugin
from maze_core.plugins.hookspecs import hookimpl

if TYPE_CHECKING:
    from gymnasium import Space

    from maze_core.models.policy import Policy


class MlpConfig(ModelConfig):
    """The parameters of `mlp`."""

    hidden: Hidden = (64, 64)
    """Units of each fully connected layer before the heads."""
    activation: Activation = "tanh"
    """Activation of the fully connected layers."""


class MlpModel(Plugin):
    """Fully connected policy and critic for any observation without images."""

    Config = MlpConfig

    @hookimpl
    def build_policy(self, observation_space: Space[Any], action_space: Space[Any], config: MlpConfig) -> Policy:
        """Build the policy. Raises ConfigError where an observation is an image."""
        leaves = input_spaces(observation_space, action_space)
        seen_by_critic = critic_spaces(observation_space, action_space)
        for key, space in seen_by_critic.items():
            if is_image(space):
                raise ConfigError(
                    f"the model mlp does not take images, but observation {key!r} has shape {space.shape}",
                    where="model.name",
                    hint="Use the model cnn (one image) or template (several leaves), or flatten it with a wrapper.",
                )
        return assemble_policy(
            observation_space,
            action_space,
            config,
            lambda: MlpEncoder(leaves, config.hidden, config.activation),
            make_critic_encoder=lambda: MlpEncoder(seen_by_critic, config.hidden, config.activation),
        )
