"""Convert images: to gray, and to another size."""

from __future__ import annotations

import warnings
from collections.abc import Generator
from typing import Annotated, Any

import numpy as np
from gymnasium import Space, spaces
from gymnasium.wrappers import GrayscaleObservation
from pydantic import Field

from maze_core import Plugin, hookimpl
from maze_core.envs.spaces import looks_channels_first
from maze_wrappers.leaves import Env, LeafConfig, Part, observe, observe_parts


class GrayConfig(LeafConfig):
    """The parameters of `gray`."""

    keep_channel: bool = False
    """Keep the channel axis with length 1."""


class Gray(Plugin):
    """Convert colour images to gray (gymnasium's GrayscaleObservation)."""

    Config = GrayConfig

    @hookimpl(wrapper=True)
    def make_env(self, config: Any, seed: int, index: int) -> Generator[None, Env, Env]:
        """Wrap the environment."""
        keep = self.config.keep_channel
        return observe((yield), self.config, _no_colours, lambda leaf: GrayscaleObservation(leaf, keep))


Size = Annotated[int, Field(gt=0, le=10_000)]


class ResizeConfig(LeafConfig):
    """The parameters of `resize`."""

    height: Size = 84
    """Height in pixels."""
    width: Size = 84
    """Width in pixels."""


class Resize(Plugin):
    """Resize images: each new pixel is the mean of the area it covers."""

    Config = ResizeConfig

    @hookimpl(wrapper=True)
    def make_env(self, config: Any, seed: int, index: int) -> Generator[None, Env, Env]:
        """Wrap the environment."""
        size = (self.config.height, self.config.width)
        return observe_parts((yield), self.config, _no_picture, lambda space: _resized(space, *size))


def _no_picture(space: Space[Any]) -> str | None:
    fits = isinstance(space, spaces.Box) and len(space.shape) in (2, 3) and np.dtype(space.dtype).kind in "fu"
    return None if fits else "is not an image [height, width] or [height, width, channels]"


def _no_colours(space: Space[Any]) -> str | None:
    fits = isinstance(space, spaces.Box) and len(space.shape) == 3 and space.shape[2] == 3 and space.dtype == np.uint8
    fits = fits and bool(np.all(space.low == 0) and np.all(space.high == 255))  # type: ignore[attr-defined]
    return None if fits else "is not an image [height, width, 3] of uint8"


def _resized(space: Any, height: int, width: int) -> Part:
    """Return the resized leaf for `space`, a Box."""
    if looks_channels_first(space.shape):
        warnings.warn(
            f"an image of shape {space.shape} is resized as one of {space.shape[0]} by {space.shape[1]} pixels. If "
            "its channels come first, put the wrapper transpose with axes [1, 2, 0] before resize",
            RuntimeWarning,
            stacklevel=2,
        )
    rows, columns = area_weights(space.shape[0], height), area_weights(space.shape[1], width)
    shape, dtype = (height, width, *space.shape[2:]), np.dtype(space.dtype)
    whole = dtype.kind != "f"

    def resize(picture: np.ndarray) -> np.ndarray:
        flat = picture.astype(np.float32).reshape(picture.shape[0], -1)
        tall = (rows @ flat).reshape(height, picture.shape[1], -1)
        wide = np.matmul(columns, tall).reshape(shape)
        resized: np.ndarray = (np.rint(wide) if whole else wide).astype(dtype)
        return resized

    low, high = dtype.type(space.low.min()), dtype.type(space.high.max())
    return Part(spaces.Box(low, high, shape, dtype.type), resize)


def area_weights(old: int, new: int) -> np.ndarray:
    """Return weights [new, old] float32: the share of each old pixel in each new one."""
    edges = np.arange(new + 1) * old / new
    left, right = edges[:-1, None], edges[1:, None]
    pixels = np.arange(old)
    overlap = np.clip(np.minimum(right, pixels + 1) - np.maximum(left, pixels), 0, None)
    weights: np.ndarray = (overlap / overlap.sum(1, keepdims=True)).astype(np.float32)
    return weights
