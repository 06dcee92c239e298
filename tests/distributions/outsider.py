"""Distributions as an author outside of Maze writes them: a package of one file that imports promised modules alone."""

from __future__ import annotations

from typing import Annotated, Any

import torch
from gymnasium import Space, spaces
from pydantic import Field
from torch import Tensor

from maze_core import PluginConfig
from maze_core.models.distributions import Distribution
from maze_core.models.distributions.base import Noise
from maze_core.models.distributions.continuous import HALF_LOG_2PI, normal_nodes
from maze_core.models.distributions.family import Family, FamilyHead


class MixtureConfig(PluginConfig):
    """The parameters of the mixture."""

    components: Annotated[int, Field(ge=1, le=64)] = 3
    """Gaussians of each dimension."""


class Mixture(Distribution):
    """A mixture of Gaussians for each dimension."""

    def __init__(self, parameters: Tensor, components: int, head: FamilyHead) -> None:
        assert head.scale is not None
        self.scale = head.scale
        logits, shift, log_std = parameters.reshape(-1, 3, self.scale.size, components).unbind(1)
        self.log_weights = logits.log_softmax(-1)
        self.mean = shift + torch.linspace(-1, 1, shift.shape[-1], device=shift.device)
        self.log_std = log_std.clamp(-4, 2) - 0.7

    def sample(self, noise: Tensor) -> Tensor:
        gumbel, normal = noise.split([self.mean[0].numel(), self.scale.size], -1)
        chosen = (self.log_weights + gumbel.reshape(self.mean.shape)).argmax(-1, keepdim=True)
        mean, log_std = (leaf.gather(-1, chosen).squeeze(-1) for leaf in (self.mean, self.log_std))
        return torch.addcmul(mean, log_std.exp(), normal)

    def mode(self) -> Tensor:
        best = self._log_density(self.mean.movedim(-1, 0)).argmax(0)
        return self.mean.gather(-1, best.unsqueeze(-1)).squeeze(-1)

    def log_prob(self, sample: Tensor) -> Tensor:
        return self._log_density(sample).sum(-1) - self.scale.log_volume

    def entropy(self) -> Tensor:
        nodes, weights = normal_nodes(self.mean.dtype, self.mean.device)
        values = self.mean + self.log_std.exp() * nodes[:, None, None, None]  # [64, B, d, k]
        each = self._log_density(values.movedim(-1, 0))  # [k, 64, B, d]
        surprise = (-each * weights[:, None, None]).sum(1).movedim(0, -1)
        return (self.log_weights.exp() * surprise).sum((-1, -2)) + self.scale.log_volume

    def _log_density(self, value: Tensor) -> Tensor:
        standard = (value.unsqueeze(-1) - self.mean) / self.log_std.exp()
        return torch.logsumexp(self.log_weights - 0.5 * standard.square() - self.log_std - HALF_LOG_2PI, -1)


class MixtureFamily(Family):
    """Mixtures of Gaussians, clipped to the bounds in the environment; for Box."""

    Config = MixtureConfig
    spaces = (spaces.Box,)
    gives = Mixture

    def size(self, space: Space[Any]) -> int:
        return 3 * self.config.components * _size(space)

    def noise(self, space: Space[Any]) -> Noise:
        return {"gumbel": (_size(space), self.config.components), "standard_normal": (_size(space),)}

    def distribution(self, parameters: Tensor, mask: Tensor | None, head: FamilyHead) -> Mixture:
        return Mixture(parameters, self.config.components, head)


class TruncatedLogistic(Distribution):
    """A logistic distribution for each dimension, cut at the bounds; its samples are differentiable."""

    reparametrised = True
    bounded = True

    def __init__(self, parameters: Tensor, head: FamilyHead) -> None:
        assert head.scale is not None
        self.scale = head.scale
        raw, log_width = parameters.chunk(2, -1)
        self.centre, self.width = torch.tanh(raw), log_width.clamp(-3, 1).exp()
        self.low = torch.sigmoid((-1 - self.centre) / self.width)
        self.mass = torch.sigmoid((1 - self.centre) / self.width) - self.low

    def sample(self, noise: Tensor) -> Tensor:
        return (self.centre + self.width * torch.logit(self.low + noise * self.mass, 1e-6)).clamp(-1, 1)

    def mode(self) -> Tensor:
        return self.centre

    def log_prob(self, sample: Tensor) -> Tensor:
        return self._log_density(sample).sum(-1) - self.scale.log_volume

    def entropy(self) -> Tensor:
        middles = (torch.arange(128, device=self.centre.device) + 0.5) / 128
        values = self.sample(middles[:, None, None])
        return -self._log_density(values).mean(0).sum(-1) + self.scale.log_volume

    def _log_density(self, value: Tensor) -> Tensor:
        standard = (value - self.centre) / self.width
        log_sigmoid = torch.nn.functional.logsigmoid
        return log_sigmoid(standard) + log_sigmoid(-standard) - self.width.log() - self.mass.log()


class TruncatedLogisticFamily(Family):
    """Logistic distributions between the bounds; for Box with finite bounds."""

    spaces = (spaces.Box,)
    gives = TruncatedLogistic

    def size(self, space: Space[Any]) -> int:
        return _size(space)

    def free(self, space: Space[Any]) -> Tensor:
        return torch.full((_size(space),), -0.5)

    def noise(self, space: Space[Any]) -> Noise:
        return {"uniform": (_size(space),)}

    def distribution(self, parameters: Tensor, mask: Tensor | None, head: FamilyHead) -> TruncatedLogistic:
        return TruncatedLogistic(parameters, head)


class EpsilonConfig(PluginConfig):
    """The parameters of epsilon-softmax."""

    epsilon: Annotated[float, Field(gt=0, lt=1)] = 0.1
    """The share of choices that are drawn evenly."""
    temperature: Annotated[float, Field(gt=0)] = 1.0
    """Divisor of the logits."""


class EpsilonSoftmax(Distribution):
    """A softmax, mixed with an even choice among all that are allowed."""

    bounded = True

    def __init__(self, logits: Tensor, mask: Tensor | None, epsilon: float) -> None:
        allowed = torch.ones_like(logits, dtype=torch.bool) if mask is None else mask != 0
        allowed = allowed | ~allowed.any(-1, keepdim=True)
        soft = logits.masked_fill(~allowed, -1e9).softmax(-1)
        even = allowed / allowed.sum(-1, keepdim=True)
        self.log_probs = ((1 - epsilon) * soft + epsilon * even).clamp(min=1e-30).log()

    def sample(self, noise: Tensor) -> Tensor:
        return (self.log_probs + noise).argmax(-1)

    def mode(self) -> Tensor:
        return self.log_probs.argmax(-1)

    def log_prob(self, sample: Tensor) -> Tensor:
        return self.log_probs.gather(-1, sample.unsqueeze(-1)).squeeze(-1)

    def entropy(self) -> Tensor:
        return -(self.log_probs.exp() * self.log_probs).sum(-1)

    def kl(self, other: EpsilonSoftmax) -> Tensor:
        return (self.log_probs.exp() * (self.log_probs - other.log_probs)).sum(-1)


class EpsilonSoftmaxFamily(Family):
    """One choice, by a softmax that never excludes any; for Discrete."""

    Config = EpsilonConfig
    spaces = (spaces.Discrete,)
    gives = EpsilonSoftmax

    def size(self, space: Space[Any]) -> int:
        assert isinstance(space, spaces.Discrete)
        return int(space.n)

    def noise(self, space: Space[Any]) -> Noise:
        return {"gumbel": (self.size(space),)}

    def distribution(self, parameters: Tensor, mask: Tensor | None, head: FamilyHead) -> EpsilonSoftmax:
        return EpsilonSoftmax(parameters / self.config.temperature, mask, self.config.epsilon)


def _size(space: Space[Any]) -> int:
    return int(torch.Size(space.shape or ()).numel())
