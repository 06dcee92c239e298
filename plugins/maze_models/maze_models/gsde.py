"""Generalised state-dependent exploration (Raffin et al., CoRL 2021, arXiv 2005.05719): noise that is a function.

The noise of an action is theta phi(s), where phi(s) are the policy's features and theta a random matrix that stays the
same for some steps. Like states then have like noise, so that what an agent does is smooth.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import torch
from gymnasium import spaces
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from maze_core import Dense, PluginConfig
from maze_core.models.distributions import BoxScale, DiagonalGaussian, Distribution, Family, SquashedGaussian
from maze_core.models.distributions.base import DRAWS, Noise

_LEAST = 1e-6
# Added to variances, as by the authors: all features may be 0.


class GsdeConfig(PluginConfig):
    """The parameters of gsde and squashed_gsde."""

    initial_log_std: Annotated[float, Field(ge=-20, le=2)] = -2.0
    """Log of the initial standard deviation of theta, in units of half the range of a bounded Box. That of an action is
    so many times the norm of the features."""
    hold: PositiveInt = 8
    """Steps of a rollout after which theta is drawn anew; a rollout begins with a new one."""


class SmoothGaussian(DiagonalGaussian):
    """Independent normals whose noise is a linear function of features. Sample: the canonical action, [B, d].

    Args:
        mean: [B, d]
        features: [B, F], constants.
        log_std: [F, d], of theta.
        scale: of the Box.
    """

    def __init__(self, mean: Tensor, features: Tensor, log_std: Tensor, scale: BoxScale) -> None:
        super().__init__(mean, log_std_of(features, log_std), scale)
        self._features, self._theta_std = features, log_std.exp()

    def sample(self, noise: Tensor) -> Tensor:
        """Return the mean plus theta phi(s) for noise [B, F d], [B, d]; differentiable in mean and deviation."""
        return self.mean + explored(self._features, self._theta_std, noise)


class SquashedSmoothGaussian(SquashedGaussian):
    """The tanh of such normals over a bounded Box. Sample: the value u before the tanh, [B, d]; arguments as above."""

    def __init__(self, mean: Tensor, features: Tensor, log_std: Tensor, scale: BoxScale) -> None:
        super().__init__(mean, log_std_of(features, log_std), scale)
        self._features, self._theta_std = features, log_std.exp()

    def sample(self, noise: Tensor) -> Tensor:
        """Return the mean plus theta phi(s) for noise [B, F d], [B, d]; differentiable in mean and deviation."""
        return self.mean + explored(self._features, self._theta_std, noise)


def log_std_of(features: Tensor, log_std: Tensor) -> Tensor:
    """Return the log of the standard deviation of theta phi(s), [B, d] (eq. 5 of the paper).

    Args:
        features: phi(s), [B, F].
        log_std: [F, d], of theta, whose entries are independent.
    """
    return 0.5 * (features.square() @ (2 * log_std).exp() + _LEAST).log()


def explored(features: Tensor, std: Tensor, noise: Tensor) -> Tensor:
    """Return theta phi(s), […, B, d], where theta is `std` [F, d] times the noise of each row, […, B, F d]."""
    theta = std * noise.reshape(*noise.shape[:-1], *std.shape)
    return (features.unsqueeze(-2) @ theta).squeeze(-2)


def held(shape: tuple[int, ...], hold: int, generator: torch.Generator) -> Tensor:
    """Return standard normal noise of a shape; of steps, [T, N, n], `hold` that follow each other have the same."""
    if len(shape) < 3:
        return DRAWS["standard_normal"](shape, generator)
    blocks = DRAWS["standard_normal"]((-(-shape[0] // hold), *shape[1:]), generator)
    return blocks.repeat_interleave(hold, 0)[: shape[0]]


class GsdeHead(nn.Module):
    """Box → SmoothGaussian, or SquashedSmoothGaussian."""

    def __init__(self, space: spaces.Box, features: int, config: GsdeConfig, kind: type[Any]) -> None:
        super().__init__()
        self.scale, self._kind, self._hold = BoxScale(space), kind, config.hold
        self.picture_lines = (config.name,)
        self.shape: tuple[int, ...] = (features * self.scale.size,)
        self.noise: Noise = {"standard_normal": self.shape}
        self.linear = Dense(features, self.scale.size)
        self.log_std = nn.Parameter(torch.full((features, self.scale.size), config.initial_log_std))

    def forward(self, features: Tensor, mask: Tensor | None) -> Distribution:
        """Features [B, F] → the distribution. The noise is no reason for other features."""
        found: Distribution = self._kind(
            self.linear.forward(features), features.detach(), self.log_std.clamp(-20, 2), self.scale
        )
        return found

    def draw_noise(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Return noise of this shape, which ends with that of one row; that of steps is held."""
        return held(shape, self._hold, generator)


class GsdeFamily(Family):
    """Normals whose noise is a function of the observation for some steps (gSDE), clipped to the bounds; for Box."""

    Config = GsdeConfig
    spaces = (spaces.Box,)
    gives: ClassVar[type[Distribution]] = SmoothGaussian

    def head(self, space: Any, features: int) -> GsdeHead:
        """Return a linear layer for the mean, and the deviations of theta."""
        return GsdeHead(space, features, self.config, SmoothGaussian)


class SquashedGsdeFamily(Family):
    """The tanh of such normals (gSDE), scaled to the bounds; for Box with finite bounds."""

    Config = GsdeConfig
    spaces = (spaces.Box,)
    gives: ClassVar[type[Distribution]] = SquashedSmoothGaussian

    def head(self, space: Any, features: int) -> GsdeHead:
        """Return a linear layer for the mean before the tanh, and the deviations of theta."""
        return GsdeHead(space, features, self.config, SquashedSmoothGaussian)
