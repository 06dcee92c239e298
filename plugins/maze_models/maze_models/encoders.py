"""Encoders of images, and of several leaves: modules that turn an observation tree into features, [B, out_features]."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Literal

import torch
from gymnasium import spaces
from torch import Tensor, nn

from maze_core import ConfigError, Dense
from maze_core.envs.spaces import is_channels_first, looks_channels_first
from maze_core.models.blocks import MLP, Activation, members
from maze_core.models.inputs import pixel_scale
from maze_models.composer import Composer, Composition
from maze_models.convolution import convolve_image
from maze_models.precision import ImagePrecision, computing_dtype

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from maze_core import TensorTree

Layout = Literal["auto", "hwc", "chw"]
"""Order of an image's dimensions; `auto`: channels first where that is beyond doubt, else last."""
_NATURE_SIZE = 36
# The three convolutions of Mnih et al. 2015 need 36 pixels.


class ImageEncoder(nn.Module):
    """One image leaf [B, H, W, C] (`hwc`), [B, C, H, W] (`chw`) or [B, H, W] → convolutions → one dense layer.

    A declared layout is used, with a warning where another one is likely; `auto` is resolved here. Images of at least
    36 pixels pass the three convolutions of the DQN of Mnih et al. 2015; smaller ones pass three of 3 x 3, which halve
    them while they are larger than 4 pixels. uint8 is divided by its largest value (255) here, not in storage.

    With the precision `bfloat16` these layers compute in it while they learn; parameters, gradients and features are
    float32 all the same.
    """

    def __init__(
        self,
        key: str,
        space: spaces.Box,
        layout: Layout,
        out_features: int,
        precision: ImagePrecision = "float32",
    ) -> None:
        super().__init__()
        self.precision: ImagePrecision = precision
        layout = settled_layout(space, layout)
        _warn_of_layout(key, space, layout)
        self.key, self.layout, self.out_features = key, layout, out_features
        self.channels, height, width = image_size(space, layout)
        self._permute = len(space.shape) == 3 and layout == "hwc"
        self._single_channel = len(space.shape) == 2
        self._scale = pixel_scale(space)
        kernels = _kernels(min(height, width))
        channels = [self.channels, 32, 64, 64]
        self.convolutions = nn.ModuleList(
            nn.Conv2d(channels[i], channels[i + 1], size, stride, padding)
            for i, (size, stride, padding) in enumerate(kernels)
        )
        for size, stride, padding in kernels:
            height, width = ((n + 2 * padding - size) // stride + 1 for n in (height, width))
        self.dense = Dense(channels[-1] * height * width, out_features)

    def forward(self, obs: TensorTree) -> Tensor:
        """Leaves [B, …] → [B, out_features], float32; reads one leaf."""
        image = obs[self.key]
        dtype = computing_dtype(self.precision, image.device)
        if dtype == torch.float32:
            return self._features(image, dtype)
        # Every weight is used once, so nothing is gained by a cache of their casts.
        with torch.autocast(image.device.type, dtype, cache_enabled=False):
            features = self._features(image, dtype)
        return features.float()

    def _features(self, image: Tensor, dtype: torch.dtype) -> Tensor:
        if self._permute:
            image = image.permute(0, 3, 1, 2)
        elif self._single_channel:
            image = image.unsqueeze(1)
        first, *rest = members(self, "convolutions")
        features = torch.relu_(convolve_image(image, first, self._scale, dtype))
        for convolution in rest:
            features = torch.relu_(convolution(features))
        return torch.relu_(self.dense.forward(features.flatten(1)))


class ConcatEncoder(nn.Module):
    """Several encoders of one observation → concatenated, or joined by a composer → fully connected layers."""

    def __init__(
        self,
        parts: Mapping[str, nn.Module],
        hidden: Sequence[int],
        activation: Activation,
        composer: Composer | None = None,
    ) -> None:
        super().__init__()
        # torch forbids submodules named like a method ("type", "half"); observations may have such names.
        self.parts = nn.ModuleDict({f"{key}_encoder": part for key, part in parts.items()})
        self._keys = tuple(parts)
        widths = {key: int(part.out_features) for key, part in parts.items()}  # type: ignore[arg-type]
        self.composition = Composition(widths, composer)
        self.trunk = MLP(self.composition.out_features, hidden, activation)
        self.out_features = self.trunk.out_features

    def forward(self, obs: TensorTree) -> Tensor:
        """Leaves [B, …] → [B, out_features]."""
        encoded = {key: part(obs) for key, part in zip(self._keys, self.parts.values(), strict=True)}
        return self.trunk.forward(self.composition.forward(encoded))


def settled_layout(space: spaces.Box, layout: Layout) -> Literal["hwc", "chw"]:
    """Return the layout in which an image leaf is read."""
    if layout != "auto":
        return layout
    return "chw" if is_channels_first(tuple(space.shape)) else "hwc"


def image_size(space: spaces.Box, layout: Layout) -> tuple[int, int, int]:
    """Return channels, height and width of an image leaf; two dimensions are one channel.

    Raises:
        ConfigError: the space has neither two nor three dimensions.
    """
    if len(space.shape) == 2:
        return (1, *space.shape)
    if len(space.shape) != 3:
        raise ConfigError(f"an image has two or three dimensions, not the shape {space.shape}", where="model.name")
    return space.shape if settled_layout(space, layout) == "chw" else (space.shape[2], *space.shape[:2])


def _warn_of_layout(key: str, space: spaces.Box, layout: Literal["hwc", "chw"]) -> None:
    """Warn when an image seems to have the other layout."""
    shape = tuple(space.shape)
    if layout == "hwc":
        wrong, axes = looks_channels_first(shape), [1, 2, 0]
    else:
        wrong, axes = looks_channels_first(shape[::-1]), [2, 0, 1]
    if wrong:
        _, height, width = image_size(space, layout)
        warnings.warn(
            f"observation {key!r} of shape {shape} is taken as an image of {height} by {width} pixels. If its channels "
            f"come {'first' if layout == 'hwc' else 'last'}: --set model.layout={'chw' if layout == 'hwc' else 'hwc'}, "
            f"or the wrapper transpose with axes {axes}",
            RuntimeWarning,
            stacklevel=3,
        )


def _kernels(smaller_side: int) -> list[tuple[int, int, int]]:
    """Return (kernel, stride, padding) of the three convolutions."""
    if smaller_side >= _NATURE_SIZE:
        return [(8, 4, 0), (4, 2, 0), (3, 1, 0)]
    kernels = []
    for _ in range(3):
        stride = 2 if smaller_side > 4 else 1
        kernels.append((3, stride, 1))
        smaller_side = (smaller_side - 1) // stride + 1
    return kernels
