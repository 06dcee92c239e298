"""Distributions over Box actions: Gaussians, plain and squashed by tanh; the units in which they act."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from maze_core.envs.spaces import float_bounds, is_narrow
from maze_core.models.distributions.base import DRAWS, sum_last

if TYPE_CHECKING:
    from gymnasium.spaces import Box


LOG_2 = math.log(2.0)
HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
_INSIDE = 1.0 - 1e-6
# Largest |tanh(u)| in from_env_action: u = 7.25, safe in float32.


class BoxScale(nn.Module):
    """Canonical z and action a = centre + radius * z, dimension by dimension: z in [-1, 1] spans [low, high].

    Dimensions without two finite bounds keep their units (centre 0, radius 1). `log_volume` is the sum of
    log(radius), which the change of units subtracts from a log-density. Canonical actions are flat, [B, d]. Where the
    space `is_narrow`, actions in its units are float64.
    """

    centre: Tensor
    radius: Tensor
    lowest: Tensor
    highest: Tensor

    def __init__(self, space: Box) -> None:
        super().__init__()
        self._narrow = is_narrow(space)
        dtype = torch.float64 if self._narrow else torch.float32
        for name, bound in zip(("lowest", "highest"), float_bounds(space), strict=True):
            self.register_buffer(name, torch.as_tensor(bound, dtype=dtype), persistent=False)
        low, high = (bound.reshape(-1) for bound in float_bounds(space))
        finite = np.isfinite(low) & np.isfinite(high)
        self.bounded = bool(finite.all())
        low, high = np.where(finite, low, -1.0), np.where(finite, high, 1.0)
        radius = np.where(high > low, (high - low) / 2, 1.0)
        self._dtype = np.dtype(space.dtype)
        self.shape: tuple[int, ...] = tuple(space.shape)
        self.size = int(radius.size)
        self.log_volume = float(np.log(radius).sum())
        self._identity = bool((radius == 1).all() and (high + low == 0).all())
        self.register_buffer("centre", torch.as_tensor((high + low) / 2, dtype=dtype), persistent=False)
        self.register_buffer("radius", torch.as_tensor(radius, dtype=dtype), persistent=False)

    def to_env(self, canonical: Tensor) -> Tensor:
        """[…, d] canonical → […, *shape] in the units of the space."""
        if self._narrow:
            canonical = canonical.double()
        action = canonical if self._identity else torch.addcmul(self.centre, self.radius, canonical)
        return action if len(self.shape) == 1 else action.reshape(*action.shape[:-1], *self.shape)

    def executed(self, action: Tensor) -> Tensor:
        """Return actions in the units of the space as environments execute them: within the bounds, rounded."""
        inside = action.clamp(self.lowest, self.highest)
        if self._dtype.kind == "f":
            return inside.half().to(action.dtype) if self._dtype.itemsize == 2 else inside
        return inside.round()

    def to_canonical(self, action: Tensor) -> Tensor:
        """[…, *shape] in the units of the space → […, d] canonical."""
        if len(self.shape) != 1:
            action = action.reshape(*action.shape[: action.ndim - len(self.shape)], self.size)
        canonical = action if self._identity else (action - self.centre) / self.radius
        return canonical.float() if self._narrow else canonical


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
        # log(s2 / s1) + (s1² + (m1 - m2)²) / (2 s2²) - ½, summed over dimensions.
        ratio = (self.std / other.std).square()
        shift = ((self.mean - other.mean) / other.std).square()
        return sum_last(0.5 * (ratio + shift - 1.0) + other.log_std - self.log_std)

    def _log_prob_of_value(self, value: Tensor) -> Tensor:
        # -(u - mean)² / (2 std²) - log std - ½ log 2π, summed over dimensions.
        standard = (value - self.mean) / self.std
        return sum_last(-0.5 * standard.square() - self.log_std) - HALF_LOG_2PI * value.shape[-1]

    def _entropy_of_value(self) -> Tensor:
        # log std + ½ (1 + log 2π), summed over dimensions. It does not depend on the mean, so the std may lack rows.
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
        # a = centre + radius tanh(u), so log p(a) = log N(u) - log |da/du|.
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
