"""The model `cnn`: convolutions on one image."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gymnasium import spaces

from maze_core import ConfigError, Plugin, hookimpl
from maze_core.envs.actors import CRITIC
from maze_core.models.assembly import ModelConfig, assemble_policy, for_critic
from maze_core.models.blocks import Activation
from maze_core.models.inputs import MlpEncoder, critic_spaces, input_spaces
from maze_core.plugins.config.params import CriticHidden, Hidden, Width
from maze_models.encoders import ConcatEncoder, ImageEncoder, Layout
from maze_models.precision import ImagePrecision

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gymnasium import Space
    from torch import nn

    from maze_core import Policy


class CnnConfig(ModelConfig):
    """The parameters of `cnn`."""

    layout: Layout = "auto"
    """Order of the image's dimensions: `hwc` has the channels last, `chw` first; `auto`: first if the shape leaves no
    doubt, such as (4, 84, 84), otherwise last."""
    image_features: Width = 512
    """Units of the dense layer after the convolutions."""
    image_precision: ImagePrecision = "float32"
    """What the layers up to `image_features` compute in while they learn: `float32`, `bfloat16`, or `auto`, bfloat16 on
    processors with AMX, where it is faster, else float32. Parameters, losses and acting are always float32."""
    hidden: Hidden = ()
    """Units of further fully connected layers before the heads."""
    critic_hidden: CriticHidden = None
    activation: Activation = "relu"
    """Activation of these layers."""


class CnnModel(Plugin):
    """Convolutional policy and critic for an observation of one image and, where present, action masks."""

    Config = CnnConfig

    @hookimpl
    def build_policy(self, observation_space: Space[Any], action_space: Space[Any], config: CnnConfig) -> Policy:
        """Build the policy. Raises ConfigError unless the observation is one image."""
        leaves = input_spaces(observation_space, action_space)
        key, space = next(iter(leaves.items()), ("observation", None))
        if len(leaves) != 1 or not isinstance(space, spaces.Box) or len(space.shape) not in (2, 3):
            found = ", ".join(f"{key} {space}" for key, space in leaves.items())
            raise ConfigError(
                f"the model cnn takes one image (a Box of two or three dimensions), but the observation is: {found}",
                where="model.name",
                hint="Use the model template, which encodes each observation by its shape, or mlp for flat ones.",
            )
        seen_by_critic = critic_spaces(observation_space, action_space)
        return assemble_policy(
            observation_space,
            action_space,
            config,
            lambda: _encoder(key, space, config),
            make_critic_encoder=lambda: _critic_encoder(key, space, seen_by_critic, for_critic(config)),
        )


def _critic_encoder(key: str, image: spaces.Box, seen: Mapping[str, Space[Any]], config: CnnConfig) -> ConcatEncoder:
    """Return an encoder of the image, and of the leaves that critics alone see, which may not be images."""
    more = {name: space for name, space in seen.items() if name != key}
    if not more:
        return _encoder(key, image, config)
    parts: dict[str, nn.Module] = {key: _image_encoder(key, image, config)}
    parts[CRITIC] = MlpEncoder(more, (), config.activation)
    return ConcatEncoder(parts, config.hidden, config.activation)


def _encoder(key: str, space: spaces.Box, config: CnnConfig) -> ConcatEncoder:
    return ConcatEncoder({key: _image_encoder(key, space, config)}, config.hidden, config.activation)


def _image_encoder(key: str, space: spaces.Box, config: CnnConfig) -> ImageEncoder:
    return ImageEncoder(key, space, config.layout, config.image_features, config.image_precision)
