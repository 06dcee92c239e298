"""Beta distributions over Box actions with finite bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import torch
from gymnasium import spaces
from torch import Tensor, nn
from torch.nn import functional as F

from maze_core import Dense
from maze_core.models.distributions import BoxScale, Family
from maze_core.models.distributions.base import draw, sum_last
from maze_core.models.distributions.continuous import LOG_2

if TYPE_CHECKING:
    from maze_core.models.distributions.base import Distribution, Noise

_PROPOSALS = 8
# Candidates for each gamma variate, see `_gamma`.
_EDGE = 1e-6
# The distance of samples of a Beta from 0 and 1, where their density may be 0 and its logarithm infinite.


class Beta:
    """Independent Betas stretched over a bounded Box. Sample: x in (0, 1), [B, d].

    `alpha`, `beta` [B, d], both at least 1, so that the density is unimodal and finite
    (Chou et al. 2017, "Improving stochastic policy gradients … using the Beta distribution").
    """

    reparametrised: ClassVar[bool] = False
    bounded: ClassVar[bool] = True

    def __init__(self, alpha: Tensor, beta: Tensor, scale: BoxScale) -> None:
        self.alpha, self.beta, self.scale = alpha, beta, scale

    @staticmethod
    def noise(size: int) -> Noise:
        """Return the noise for two gammas of each of `size` dimensions: 8 proposals, each of two numbers."""
        return {"standard_normal": (size, 2, _PROPOSALS), "standard_exponential": (size, 2, _PROPOSALS)}

    @staticmethod
    def draw_noise(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Return noise for alphas of a shape [*leading, d]: [*leading, n]."""
        return draw(Beta.noise(shape[-1]), shape[:-1], generator)

    @torch.no_grad()
    def sample(self, noise: Tensor) -> Tensor:
        """Return x = g1 / (g1 + g2) with gammas g1, g2; not differentiable."""
        normal, exponential = (part.reshape(*part.shape[:-1], -1, 2, _PROPOSALS) for part in noise.chunk(2, -1))
        gammas = _gamma(torch.stack((self.alpha, self.beta), -1), normal, -exponential)
        return (gammas[..., 0] / gammas.sum(-1)).clamp(_EDGE, 1.0 - _EDGE)

    def mode(self) -> Tensor:
        """Return the maximum of the density; the centre where it is flat."""
        # (a - 1) / (a + b - 2), which is 0 / 0 for the flat density a = b = 1.
        return (self.alpha - 1.0 + _EDGE) / (self.alpha + self.beta - 2.0 + 2.0 * _EDGE)

    def log_prob(self, sample: Tensor) -> Tensor:
        """Return the log-density of the action in environment units, [B]."""
        kernel = (self.alpha - 1.0) * sample.log() + (self.beta - 1.0) * torch.log1p(-sample)
        # The map from x to the action is 2 * radius wide.
        units = self.scale.log_volume + LOG_2 * sample.shape[-1]
        return sum_last(kernel - _log_beta(self.alpha, self.beta)) - units

    def entropy(self) -> Tensor:
        """Return the differential entropy in environment units, [B]."""
        alpha, beta, total = self.alpha, self.beta, self.alpha + self.beta
        # log B(a, b) - (a - 1) ψ(a) - (b - 1) ψ(b) + (a + b - 2) ψ(a + b) for x in (0, 1).
        digammas = (total - 2.0) * total.digamma() - (alpha - 1.0) * alpha.digamma() - (beta - 1.0) * beta.digamma()
        units = self.scale.log_volume + LOG_2 * alpha.shape[-1]
        return sum_last(_log_beta(alpha, beta) + digammas) + units

    def kl(self, other: Beta) -> Tensor:
        """Return KL(self ‖ other), [B]."""
        total = self.alpha + self.beta
        # log B(a2, b2) - log B(a1, b1) + E1[(a1 - a2) log x + (b1 - b2) log(1 - x)], where E[log x] = ψ(a) - ψ(a + b).
        in_alpha = (self.alpha - other.alpha) * (self.alpha.digamma() - total.digamma())
        in_beta = (self.beta - other.beta) * (self.beta.digamma() - total.digamma())
        gap = _log_beta(other.alpha, other.beta) - _log_beta(self.alpha, self.beta)
        return sum_last(gap + in_alpha + in_beta)

    def env_action(self, sample: Tensor) -> Tensor:
        """Return the action in the units of the space, [B, *shape], inside its bounds."""
        return self.scale.to_env(2.0 * sample - 1.0)

    def from_env_action(self, action: Tensor) -> Tensor:
        """Return the position between the bounds, [B, d]; actions at a bound move 1e-6 inside."""
        return (0.5 * (self.scale.to_canonical(action) + 1.0)).clamp(_EDGE, 1.0 - _EDGE)


def _log_beta(alpha: Tensor, beta: Tensor) -> Tensor:
    return alpha.lgamma() + beta.lgamma() - (alpha + beta).lgamma()


def _gamma(shape: Tensor, normal: Tensor, log_uniform: Tensor) -> Tensor:
    """Return gamma variates of `shape` >= 1 from normal and log-uniform numbers, [*shape, 8] each.

    The rejection method of Marsaglia and Tsang (2000) with a fixed number of proposals, so that the result
    depends on the noise only. Each is accepted with probability above 0.95; all eight fail once in 3e10 draws
    (then the last is used).
    """
    # d v with v = (1 + n / (3 √d))³ and d = shape - 1/3, accepted where log u < ½ n² + d (1 - v + log v).
    offset = (shape - 1.0 / 3.0).unsqueeze(-1)
    cube = (1.0 + normal / (3.0 * offset.sqrt())).pow(3)
    bound = 0.5 * normal.square() + offset * (1.0 - cube + cube.clamp(min=1e-30).log())
    accepted = (cube > 0) & (log_uniform < bound)
    accepted[..., -1] = True
    first = accepted.to(torch.uint8).argmax(-1, keepdim=True)
    return offset.squeeze(-1) * cube.gather(-1, first).squeeze(-1).clamp(min=1e-30)


class BetaHead(nn.Module):
    """Bounded Box → Beta, with alpha and beta = 1 + softplus(…)."""

    def __init__(self, space: spaces.Box, features: int) -> None:
        super().__init__()
        self.scale = BoxScale(space)
        self.shape: tuple[int, ...] = (self.scale.size,)
        self.noise = Beta.noise(self.scale.size)
        self.linear = Dense(features, self.scale.size * 2)

    def forward(self, features: Tensor, mask: Tensor | None) -> Beta:
        """Features [B, F] → the distribution."""
        alpha, beta = (1.0 + F.softplus(self.linear.forward(features))).chunk(2, -1)
        return Beta(alpha, beta, self.scale)

    draw_noise = staticmethod(Beta.draw_noise)


class BetaFamily(Family):
    """Independent Betas over the bounds; for Box with finite bounds."""

    spaces = (spaces.Box,)
    gives: ClassVar[type[Distribution]] = Beta

    def head(self, space: Any, features: int) -> BetaHead:
        """Return a linear layer for both concentrations."""
        return BetaHead(space, features)
