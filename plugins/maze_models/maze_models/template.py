"""The model `template`: an encoder for each observation leaf, chosen by shape and dtype."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from gymnasium import spaces

from maze_core import Plugin, hookimpl
from maze_core.envs.spaces import is_image
from maze_core.models.assembly import ModelConfig, assemble_policy, for_critic
from maze_core.models.blocks import Activation
from maze_core.models.inputs import MlpEncoder, critic_spaces, input_spaces
from maze_core.plugins.config.params import CriticHidden, Hidden, Width
from maze_models.composer import Composer
from maze_models.encoders import ConcatEncoder, ImageEncoder, Layout
from maze_models.precision import ImagePrecision
from maze_models.scored_choices import Summaries

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gymnasium import Space
    from torch import nn

    from maze_core import Policy


class TemplateConfig(ModelConfig):
    """The parameters of `template`."""

    leaf_hidden: Hidden = (64,)
    """Units of each layer that encodes a flat or one-hot leaf."""
    image_features: Width = 256
    """Units of the dense layer after the convolutions of an image leaf."""
    image_precision: ImagePrecision = "float32"
    """What the layers up to `image_features` compute in while they learn: `float32`, `bfloat16`, or `auto`, bfloat16 on
    processors with AMX, where it is faster, else float32. Parameters, losses and acting are always float32."""
    layout: Layout = "auto"
    """Order of an image's dimensions: `hwc` has the channels last, `chw` first; `auto`: first if the shape leaves no
    doubt, such as (4, 84, 84), otherwise last."""
    hidden: Hidden = (64,)
    """Units of each layer after the encoded leaves are concatenated."""
    critic_hidden: CriticHidden = None
    activation: Activation = "tanh"
    """Activation of the fully connected layers."""


class TemplateModel(Plugin):
    """Policy and critic for Dict observations: each leaf is encoded, then all are concatenated.

    A Box of three dimensions, or of two with dtype uint8, is an image; anything else is flattened or one-hot. A
    subclass with a `composer` joins the encoded leaves in a way of its own.
    """

    Config = TemplateConfig
    composer: ClassVar[Composer | None] = None
    """Joins the encoded leaves, before the layers `hidden`; None: they are concatenated."""

    @hookimpl
    def build_policy(self, observation_space: Space[Any], action_space: Space[Any], config: TemplateConfig) -> Policy:
        """Build the policy."""
        summaries = Summaries(observation_space, action_space, config)
        leaves = summaries.among(input_spaces(observation_space, action_space))
        seen_by_critic = summaries.among(critic_spaces(observation_space, action_space))
        return assemble_policy(
            observation_space,
            action_space,
            config,
            lambda: summaries.before(self._encoder(leaves, config)),
            make_critic_encoder=lambda: summaries.before(self._encoder(seen_by_critic, for_critic(config))),
        )

    def _encoder(self, leaves: Mapping[str, Space[Any]], config: TemplateConfig) -> ConcatEncoder:
        parts = {key: _leaf_encoder(key, space, config) for key, space in leaves.items()}
        return ConcatEncoder(parts, config.hidden, config.activation, type(self).composer)


def _leaf_encoder(key: str, space: Space[Any], config: TemplateConfig) -> nn.Module:
    if isinstance(space, spaces.Box) and is_image(space):
        return ImageEncoder(key, space, config.layout, config.image_features, config.image_precision)
    return MlpEncoder({key: space}, config.leaf_hidden, config.activation)
