"""Pre-processing of observation leaves other than images."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import Any

import numpy as np
from gymnasium import Space, spaces
from gymnasium.wrappers import FlattenObservation, RescaleObservation
from pydantic import Field

from maze_core import ConfigError, Plugin, hookimpl
from maze_core.envs.spaces import float_bounds, is_image
from maze_wrappers.leaves import Env, LeafConfig, Part, observe, observe_parts


class Flatten(Plugin):
    """Flatten each Box leaf to a vector (gymnasium's FlattenObservation)."""

    Config = LeafConfig

    @hookimpl(wrapper=True)
    def make_env(self, config: Any, seed: int, index: int) -> Generator[None, Env, Env]:
        """Wrap the environment."""
        return observe((yield), self.config, _no_array, FlattenObservation)


class OneHot(Plugin):
    """Convert each Discrete or MultiDiscrete leaf to zeros and ones, with a one for each member's value."""

    Config = LeafConfig

    @hookimpl(wrapper=True)
    def make_env(self, config: Any, seed: int, index: int) -> Generator[None, Env, Env]:
        """Wrap the environment."""
        return observe_parts((yield), self.config, _no_choice, _one_hot)


class TransposeConfig(LeafConfig):
    """The parameters of `transpose`."""

    axes: tuple[int, ...] = (2, 0, 1)
    """Order of the old axes, as in `numpy.transpose`; (2, 0, 1) puts the channels of an image first."""

    def changes_nothing(self) -> bool:
        """Return True for axes that stay where they are."""
        return list(self.axes) == sorted(self.axes)


class Transpose(Plugin):
    """Reorder the axes of each Box leaf with as many axes."""

    Config = TransposeConfig

    @hookimpl(wrapper=True)
    def make_env(self, config: Any, seed: int, index: int) -> Generator[None, Env, Env]:
        """Wrap the environment."""
        axes = self.config.axes
        if sorted(axes) != list(range(len(axes))):
            raise ConfigError(f"must have each of 0 to {len(axes) - 1} once, got {list(axes)}", "axes")
        return observe_parts(
            (yield), self.config, self._problem, lambda space: _moved(space, lambda a: np.transpose(a, axes))
        )

    def _problem(self, space: Space[Any]) -> str | None:
        count = len(self.config.axes)
        fits = isinstance(space, spaces.Box) and len(space.shape) == count
        return None if fits else f"is not a Box with {count} axes"


class UnsqueezeConfig(LeafConfig):
    """The parameters of `unsqueeze`."""

    axis: int = 0
    """Position of the new axis of length 1; -1: last."""


class Unsqueeze(Plugin):
    """Add an axis of length 1 to each Box leaf."""

    Config = UnsqueezeConfig

    @hookimpl(wrapper=True)
    def make_env(self, config: Any, seed: int, index: int) -> Generator[None, Env, Env]:
        """Wrap the environment."""
        axis = self.config.axis
        return observe_parts(
            (yield), self.config, self._problem, lambda space: _moved(space, lambda a: np.expand_dims(a, axis))
        )

    def _problem(self, space: Space[Any]) -> str | None:
        if not isinstance(space, spaces.Box):
            return "is not a Box"
        axis, count = self.config.axis, len(space.shape)
        return None if -count - 1 <= axis <= count else f"has no position {axis} for a new axis"


class RescaleConfig(LeafConfig):
    """The parameters of `rescale_observations`."""

    low: float = -1.0
    """New lower bound."""
    high: float = 1.0
    """New upper bound."""


class RescaleObservations(Plugin):
    """Scale bounded Box leaves of floats from their bounds to [low, high] (gymnasium's RescaleObservation)."""

    Config = RescaleConfig

    @hookimpl(wrapper=True)
    def make_env(self, config: Any, seed: int, index: int) -> Generator[None, Env, Env]:
        """Wrap the environment."""
        low, high = self.config.low, self.config.high
        if not low < high:
            raise ConfigError(f"must be above low ({low:g}), got {high:g}", "high")
        problem = partial(not_to_scale, low, high)
        return observe((yield), self.config, problem, lambda leaf: RescaleObservation(leaf, low, high))


class ShiftConfig(LeafConfig):
    """The parameters of `shift_observations`."""

    offset: tuple[float, ...] = Field(min_length=1)
    """What is subtracted: one number, or one for each entry of a leaf."""

    def changes_nothing(self) -> bool:
        """Return True for an offset of 0."""
        return not any(self.offset)


class ShiftObservations(Plugin):
    """Subtract a number from each Box leaf, in the precision of the leaf, and return float32.

    It keeps the digits of large numbers that differ little, such as times and coordinates.
    """

    Config = ShiftConfig

    @hookimpl(wrapper=True)
    def make_env(self, config: Any, seed: int, index: int) -> Generator[None, Env, Env]:
        """Wrap the environment."""
        return observe_parts((yield), self.config, self._problem, self._shifted)

    def _problem(self, space: Space[Any]) -> str | None:
        if not isinstance(space, spaces.Box) or is_image(space):
            return "is an image" if isinstance(space, spaces.Box) else "is not a Box"
        count = np.size(self.config.offset)
        return None if count in (1, np.prod(space.shape)) else f"does not have {count} entries, as the offset has"

    def _shifted(self, space: Any) -> Part:
        whole = np.dtype(space.dtype).kind != "f"
        offset = np.array(self.config.offset, np.int64 if whole else np.float64)
        offset = offset.reshape(space.shape if offset.size > 1 else ())

        def shift(value: Any) -> np.ndarray:
            return np.asarray(np.subtract(value, offset), np.float32)

        return Part(spaces.Box(shift(space.low), shift(space.high), dtype=np.float32), shift)


def not_bounded(space: Space[Any]) -> str | None:
    """Return why a leaf is not a Box of floats with finite bounds; None where it is one."""
    if not isinstance(space, spaces.Box) or np.dtype(space.dtype).kind != "f":
        return "is not a Box of floats"
    return None if np.isfinite(float_bounds(space)).all() else "has no finite bounds"


def not_to_scale(low: float, high: float, space: Space[Any]) -> str | None:
    """Return why a leaf cannot be scaled to [low, high], or needs not be; None where it can."""
    problem = not_bounded(space)
    if (
        problem is None
        and isinstance(space, spaces.Box)
        and np.array_equal(np.unique(float_bounds(space)), [low, high])
    ):
        return f"is from {low:g} to {high:g} already"
    return problem


def _no_array(space: Space[Any]) -> str | None:
    fits = isinstance(space, spaces.Box) and len(space.shape) != 1
    return None if fits else "is already a vector" if isinstance(space, spaces.Box) else "is not a Box"


def _no_choice(space: Space[Any]) -> str | None:
    return None if isinstance(space, spaces.Discrete | spaces.MultiDiscrete) else "is not Discrete or MultiDiscrete"


def _one_hot(space: Any) -> Part:
    if isinstance(space, spaces.Discrete):
        sizes, start = np.array([space.n]), np.array([space.start])
    else:
        sizes, start = space.nvec, space.start
    offsets = np.concatenate([[0], np.cumsum(sizes)[:-1]]) - start
    size = int(sizes.sum())

    def encode(value: Any) -> np.ndarray:
        row = np.zeros(size, np.int8)
        row[np.atleast_1d(value) + offsets] = 1
        return row

    return Part(spaces.MultiBinary(size), encode)


def _moved(space: Any, move: Any) -> Part:
    """Return a Box whose values and bounds are rearranged by `move`."""
    return Part(spaces.Box(move(space.low), move(space.high), dtype=np.dtype(space.dtype).type), move)
