"""Maze's own distributions as plugins: families, and their heads, which turn a policy's features into one.

A head is a policy's last layer for one action leaf.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
import torch
from gymnasium import spaces
from pydantic import Field
from torch import Tensor, nn

from maze_core.envs.masks import mask_size
from maze_core.models.blocks import Dense
from maze_core.models.distributions import (
    Bernoulli,
    BoxScale,
    Categorical,
    DiagonalGaussian,
    Family,
    MultiCategorical,
    SquashedGaussian,
)
from maze_core.models.distributions.discrete import pad_choices
from maze_core.plugins.config.base import PluginConfig

if TYPE_CHECKING:
    from maze_core.models.distributions.base import Distribution, Noise

LOG_STD_RANGE = (-20.0, 2.0)
"""Bounds of a log standard deviation that depends on the observation or precedes a tanh."""


class LogitsConfig(PluginConfig):
    """The parameters of distributions over choices."""

    temperature: Annotated[float, Field(gt=0)] = 1.0
    """Divisor of the logits: above 1 makes actions more random, below 1 less."""


class GaussianConfig(PluginConfig):
    """The parameters of Gaussians."""

    log_std_init: Annotated[float, Field(ge=-20, le=2)] = 0.0
    """Log of the initial standard deviation, in units of half the range of a bounded Box."""
    state_dependent_std: bool = False
    """Compute the standard deviation from the observation, instead of learning one per dimension."""


class CategoricalHead(nn.Module):
    """Discrete(n) → Categorical."""

    def __init__(self, space: spaces.Discrete, features: int, options: LogitsConfig) -> None:
        super().__init__()
        self.shape: tuple[int, ...] = (int(space.n),)
        self.noise: Noise = {"gumbel": self.shape}
        self.linear = Dense(features, int(space.n))
        self.inverse_temperature = 1.0 / options.temperature

    def forward(self, features: Tensor, mask: Tensor | None) -> Categorical:
        """Features [B, F], mask [B, n] or None → the distribution."""
        logits = self.linear.forward(features)
        return Categorical(logits if self.inverse_temperature == 1 else logits * self.inverse_temperature, mask)

    draw_noise = staticmethod(Categorical.draw_noise)


class MultiCategoricalHead(nn.Module):
    """MultiDiscrete(nvec) → MultiCategorical; the mask is flat, [B, sum(nvec)]."""

    slots: Tensor

    def __init__(self, space: spaces.MultiDiscrete, features: int, options: LogitsConfig) -> None:
        super().__init__()
        self.shape = (len(space.nvec), int(space.nvec.max()))
        self.noise: Noise = {"gumbel": self.shape}
        self.linear = Dense(features, mask_size(space))
        self.register_buffer("slots", choice_slots(space), persistent=False)
        self.inverse_temperature = 1.0 / options.temperature

    def forward(self, features: Tensor, mask: Tensor | None) -> MultiCategorical:
        """Features [B, F], mask [B, sum(nvec)] or None → the distribution."""
        logits = self.linear.forward(features)
        logits = logits if self.inverse_temperature == 1 else logits * self.inverse_temperature
        padded_mask = None if mask is None else pad_choices(mask, self.slots, self.shape, fill=0)
        return MultiCategorical(pad_choices(logits, self.slots, self.shape), padded_mask)

    draw_noise = staticmethod(MultiCategorical.draw_noise)


class BernoulliHead(nn.Module):
    """MultiBinary → Bernoulli."""

    def __init__(self, space: spaces.MultiBinary, features: int, options: LogitsConfig) -> None:
        super().__init__()
        size = mask_size(space)
        self.shape: tuple[int, ...] = (size,)
        self.noise: Noise = {"logistic": self.shape}
        self.linear = Dense(features, size)
        self._inverse_temperature = 1.0 / options.temperature

    def forward(self, features: Tensor, mask: Tensor | None) -> Bernoulli:
        """Features [B, F], mask [B, n] or None → the distribution."""
        logits = self.linear.forward(features)
        logits = logits if self._inverse_temperature == 1 else logits * self._inverse_temperature
        return Bernoulli(logits, mask)

    draw_noise = staticmethod(Bernoulli.draw_noise)


class GaussianHead(nn.Module):
    """Box → DiagonalGaussian, or SquashedGaussian."""

    def __init__(self, space: spaces.Box, features: int, options: GaussianConfig, *, squashed: bool = False) -> None:
        super().__init__()
        self.scale = BoxScale(space)
        self.shape: tuple[int, ...] = (self.scale.size,)
        self.noise: Noise = {"standard_normal": self.shape}
        self.squashed = squashed
        self.state_dependent = options.state_dependent_std
        self.log_std_init = options.log_std_init
        self.linear = Dense(features, self.scale.size * (2 if self.state_dependent else 1))
        if not self.state_dependent:
            self.log_std = nn.Parameter(torch.full((self.scale.size,), options.log_std_init))

    def forward(self, features: Tensor, mask: Tensor | None) -> DiagonalGaussian | SquashedGaussian:
        """Features [B, F] → the distribution."""
        mean = self.linear.forward(features)
        if self.state_dependent:
            mean, log_std = mean.chunk(2, -1)
            log_std = (log_std + self.log_std_init).clamp(*LOG_STD_RANGE)
        else:
            log_std = self.log_std.clamp(*LOG_STD_RANGE) if self.squashed else self.log_std
        family = SquashedGaussian if self.squashed else DiagonalGaussian
        return family(mean, log_std, self.scale)

    draw_noise = staticmethod(DiagonalGaussian.draw_noise)


def choice_slots(space: spaces.MultiDiscrete) -> Tensor:
    """Return the position of each of the sum(nvec) flat choices in a row of k * max(nvec), int64."""
    width = space.nvec.max()
    return torch.as_tensor(np.concatenate([row * width + np.arange(n) for row, n in enumerate(space.nvec)]))


class CategoricalFamily(Family):
    """One choice, by the softmax of logits; for Discrete."""

    Config = LogitsConfig
    spaces = (spaces.Discrete,)
    gives: ClassVar[type[Distribution]] = Categorical

    def head(self, space: Any, features: int) -> CategoricalHead:
        """Return a linear layer for the logits."""
        return CategoricalHead(space, features, self.config)


class MultiCategoricalFamily(Family):
    """Several independent choices, each by the softmax of logits; for MultiDiscrete."""

    Config = LogitsConfig
    spaces = (spaces.MultiDiscrete,)
    gives: ClassVar[type[Distribution]] = MultiCategorical

    def head(self, space: Any, features: int) -> MultiCategoricalHead:
        """Return a linear layer for all logits."""
        return MultiCategoricalHead(space, features, self.config)


class BernoulliFamily(Family):
    """Independent bits; for MultiBinary."""

    Config = LogitsConfig
    spaces = (spaces.MultiBinary,)
    gives: ClassVar[type[Distribution]] = Bernoulli

    def head(self, space: Any, features: int) -> BernoulliHead:
        """Return a linear layer for the logits."""
        return BernoulliHead(space, features, self.config)


class GaussianFamily(Family):
    """Independent normals, clipped to the bounds in the environment; for Box."""

    Config = GaussianConfig
    spaces = (spaces.Box,)
    gives: ClassVar[type[Distribution]] = DiagonalGaussian

    def head(self, space: Any, features: int) -> GaussianHead:
        """Return a linear layer for the mean."""
        return GaussianHead(space, features, self.config)


class SquashedGaussianFamily(Family):
    """The tanh of independent normals, scaled to the bounds; for Box with finite bounds."""

    Config = GaussianConfig
    spaces = (spaces.Box,)
    gives: ClassVar[type[Distribution]] = SquashedGaussian

    def head(self, space: Any, features: int) -> GaussianHead:
        """Return a linear layer for the mean before the tanh."""
        return GaussianHead(space, features, self.config, squashed=True)
