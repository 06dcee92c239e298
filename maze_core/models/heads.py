"""Heads: a policy's last layer for one action leaf; turns features into a distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn
from torch.nn import functional as F

from maze_core.base.errors import ConfigError
from maze_core.envs.masks import mask_size
from maze_core.models.blocks import Dense
from maze_core.models.distributions import (
    Bernoulli,
    Beta,
    BoxScale,
    Categorical,
    DiagonalGaussian,
    MultiCategorical,
    SquashedGaussian,
)
from maze_core.models.distributions.discrete import pad_choices
from maze_core.plugins.config.base import ConfigModel

if TYPE_CHECKING:
    from gymnasium import Space

LOG_STD_RANGE = (-20.0, 2.0)
"""Bounds of a log standard deviation that depends on the observation or precedes a tanh."""


class HeadOptions(ConfigModel):
    """How features become action distributions."""

    distribution: Literal["gaussian", "squashed_gaussian", "beta"] = "gaussian"
    """Distribution of Box actions; `squashed_gaussian` and `beta` need finite bounds."""
    log_std_init: float = 0.0
    """Log of the initial standard deviation of Gaussians, in units of half the range of a bounded Box."""
    state_dependent_std: bool = False
    """Compute the standard deviation of Gaussians from the observation, instead of learning one per dimension."""
    temperature: float = 1.0
    """Divisor of the logits of discrete actions: above 1 makes them more random, below 1 less."""


class CategoricalHead(nn.Module):
    """Discrete(n) → Categorical."""

    def __init__(self, space: spaces.Discrete, features: int, options: HeadOptions) -> None:
        super().__init__()
        self.shape: tuple[int, ...] = (int(space.n),)
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

    def __init__(self, space: spaces.MultiDiscrete, features: int, options: HeadOptions) -> None:
        super().__init__()
        self.shape = (len(space.nvec), int(space.nvec.max()))
        self.linear = Dense(features, mask_size(space))
        self.register_buffer("slots", choice_slots(space), persistent=False)
        self._inverse_temperature = 1.0 / options.temperature

    def forward(self, features: Tensor, mask: Tensor | None) -> MultiCategorical:
        """Features [B, F], mask [B, sum(nvec)] or None → the distribution."""
        logits = self.linear.forward(features)
        logits = logits if self._inverse_temperature == 1 else logits * self._inverse_temperature
        padded_mask = None if mask is None else pad_choices(mask, self.slots, self.shape, fill=0)
        return MultiCategorical(pad_choices(logits, self.slots, self.shape), padded_mask)

    draw_noise = staticmethod(MultiCategorical.draw_noise)


class BernoulliHead(nn.Module):
    """MultiBinary → Bernoulli."""

    def __init__(self, space: spaces.MultiBinary, features: int, options: HeadOptions) -> None:
        super().__init__()
        size = mask_size(space)
        self.shape: tuple[int, ...] = (size,)
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

    def __init__(self, space: spaces.Box, features: int, options: HeadOptions) -> None:
        super().__init__()
        self.scale = BoxScale(space)
        self.shape: tuple[int, ...] = (self.scale.size,)
        self.squashed = options.distribution == "squashed_gaussian"
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


class BetaHead(nn.Module):
    """Bounded Box → Beta, with alpha and beta = 1 + softplus(…)."""

    def __init__(self, space: spaces.Box, features: int, options: HeadOptions) -> None:
        super().__init__()
        self.scale = BoxScale(space)
        self.shape: tuple[int, ...] = (self.scale.size,)
        self.linear = Dense(features, self.scale.size * 2)

    def forward(self, features: Tensor, mask: Tensor | None) -> Beta:
        """Features [B, F] → the distribution."""
        alpha, beta = (1.0 + F.softplus(self.linear.forward(features))).chunk(2, -1)
        return Beta(alpha, beta, self.scale)

    draw_noise = staticmethod(Beta.draw_noise)


Head = CategoricalHead | MultiCategoricalHead | BernoulliHead | GaussianHead | BetaHead


def make_head(key: str, space: Space[Any], features: int, options: HeadOptions) -> Head:
    """Return the head for one action leaf. Raises ConfigError for an unsupported space or distribution."""
    if isinstance(space, spaces.Discrete):
        return CategoricalHead(space, features, options)
    if isinstance(space, spaces.MultiDiscrete):
        return MultiCategoricalHead(space, features, options)
    if isinstance(space, spaces.MultiBinary):
        return BernoulliHead(space, features, options)
    if not isinstance(space, spaces.Box):
        raise ConfigError(f"action {key!r} has the unsupported space {space}")
    head = (
        BetaHead(space, features, options) if options.distribution == "beta" else GaussianHead(space, features, options)
    )
    if options.distribution != "gaussian" and not head.scale.bounded:
        raise ConfigError(
            f"distribution {options.distribution} needs finite bounds, but action {key!r} is {space}",
            where="model.distribution",
            hint="Choose distribution gaussian, or give the action space bounds with a wrapper.",
        )
    return head


def choice_slots(space: spaces.MultiDiscrete) -> Tensor:
    """Return the position of each of the sum(nvec) flat choices in a row of k * max(nvec), int64."""
    width = space.nvec.max()
    return torch.as_tensor(np.concatenate([row * width + np.arange(n) for row, n in enumerate(space.nvec)]))
