"""Gaussian distributions over Box actions, plain and squashed by tanh."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from maze_core.models.distributions.base import sum_last
from maze_core.models.distributions.box import HALF_LOG_2PI, LOG_2
from maze_core.models.distributions.noise import DRAWS

if TYPE_CHECKING:
    from maze_core.models.distributions.box import BoxScale

_INSIDE = 1.0 - 1e-6
# Largest |tanh(u)| in from_env_action: u = 7.25, safe in float32.


class _Normals:
    """Independent normals; subclasses define the action that a drawn value stands for.

    `mean` [B, d] and `log_std` [B, d] or [d] of the value; `scale` converts canonical actions to the space's units.
    """

    reparametrised: ClassVar[bool] = True

    def __init__(self, mean: Tensor, log_std: Tensor, scale: BoxScale) -> None:
        self.mean, self.log_std, self.scale = mean, log_std, scale

    @cached_property
    def std(self) -> Tensor:
        """Standard deviation of the value."""
        return self.log_std.exp()

    @staticmethod
    def draw_noise(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Return standard normal noise of the mean's shape."""
        return DRAWS["standard_normal"](shape, generator)

    def sample(self, noise: Tensor) -> Tensor:
        """Return mean plus std times noise, [B, d]; differentiable in mean and std."""
        return torch.addcmul(self.mean, self.std, noise)

    def mode(self) -> Tensor:
        """Return the mean, [B, d]."""
        return self.mean

    def kl(self, other: Self) -> Tensor:
        """Return KL(self ‖ other), [B]: that of the normals, which a bijection does not change."""
        ratio = (self.std / other.std).square()
        shift = ((self.mean - other.mean) / other.std).square()
        return sum_last(0.5 * (ratio + shift - 1.0) + other.log_std - self.log_std)

    def _log_prob_of_value(self, value: Tensor) -> Tensor:
        standard = (value - self.mean) / self.std
        return sum_last(-0.5 * standard.square() - self.log_std) - HALF_LOG_2PI * value.shape[-1]

    def _entropy_of_value(self) -> Tensor:
        entropy = sum_last(self.log_std) + (0.5 + HALF_LOG_2PI) * self.mean.shape[-1]
        return entropy.expand(self.mean.shape[:-1])


class DiagonalGaussian(_Normals):
    """Independent normals. Sample: the canonical action z = mean + std * noise, [B, d], not clipped.

    `mean` [B, d] and `log_std` [B, d] or [d], in canonical units (a bounded Box spans [-1, 1]). The action may
    exceed the bounds; it is clipped before the environment's step, after its density is computed.
    """

    bounded: ClassVar[bool] = False

    def log_prob(self, sample: Tensor) -> Tensor:
        """Return the log-density of the action in environment units, [B]."""
        return self._log_prob_of_value(sample) - self.scale.log_volume

    def entropy(self) -> Tensor:
        """Return the differential entropy in environment units, [B]."""
        return self._entropy_of_value() + self.scale.log_volume

    def env_action(self, sample: Tensor) -> Tensor:
        """Return the action in the units of the space, [B, *shape], not clipped."""
        return self.scale.to_env(sample)

    def from_env_action(self, action: Tensor) -> Tensor:
        """Return the canonical action, [B, d]."""
        return self.scale.to_canonical(action)


class SquashedGaussian(_Normals):
    """The tanh of independent normals over a bounded Box. Sample: the value u BEFORE the tanh, [B, d].

    `mean` [B, d] and `log_std` [B, d] or [d] of u. `mode` is the action's median, which deterministic policies use.
    Haarnoja et al. 2018 (arXiv 1801.01290), appendix C.
    """

    bounded: ClassVar[bool] = True

    def log_prob(self, sample: Tensor) -> Tensor:
        """Return the log-density of the action in environment units, with the Jacobian of tanh and units, [B]."""
        jacobian = sum_last(log_tanh_slope(sample)) + self.scale.log_volume
        return self._log_prob_of_value(sample) - jacobian

    def entropy(self) -> Tensor:
        """Return the differential entropy in environment units, [B]: the normal's plus the expected log-Jacobian.

        The expectation has no closed form. It is integrated with 64 nodes in each dimension (`normal_nodes`),
        with an error below 1e-5 for a std up to 4 and 2e-4 up to 7.4 (`log_std` 2), and is differentiable.
        """
        nodes, weights = normal_nodes(self.mean.dtype, self.mean.device)
        values = self.mean.unsqueeze(-1) + self.std.unsqueeze(-1) * nodes
        expected = sum_last(log_tanh_slope(values) @ weights)
        return self._entropy_of_value() + expected + self.scale.log_volume

    def env_action(self, sample: Tensor) -> Tensor:
        """Return the action in the units of the space, [B, *shape], inside its bounds."""
        return self.scale.to_env(torch.tanh(sample))

    def from_env_action(self, action: Tensor) -> Tensor:
        """Return the value before the tanh, [B, d]; ±7.25 for actions at a bound."""
        return torch.atanh(self.scale.to_canonical(action).clamp(-_INSIDE, _INSIDE))


def log_tanh_slope(value: Tensor) -> Tensor:
    """Return log(1 - tanh(u)^2) without cancellation: 2 (log 2 - u - softplus(-2u)), finite for any finite u."""
    return 2.0 * (LOG_2 - value - F.softplus(-2.0 * value))


def normal_nodes(dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return nodes and weights [64] that integrate against the standard normal density.

    An even grid on [-5.5, 5.5]: for log(1 - tanh^2), which has a kink under a wide normal, its error is a hundred
    times smaller than that of 64 Gauss-Hermite nodes, which cover [-15, 15].
    """
    nodes = np.linspace(-5.5, 5.5, 64)
    weights = np.exp(-0.5 * nodes**2)
    weights /= weights.sum()
    return torch.as_tensor(nodes, dtype=dtype, device=device), torch.as_tensor(weights, dtype=dtype, device=device)
