"""What every action distribution offers."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor


class Distribution(Protocol):
    """A batch of B independent distributions over one action leaf.

    A distribution draws *samples*, which are not always the environment's units: a squashed Gaussian samples
    the value before the tanh, so that its log-probability stays exact. `env_action` turns samples into
    environment units. Densities are always with respect to the action in environment units, summed over its
    dimensions.
    """

    def sample(self, noise: Tensor) -> Tensor:
        """A sample [B, …], a deterministic function of noise from `draw_noise`; Gaussians: differentiable."""

    def mode(self) -> Tensor:
        """The sample to take when acting deterministically, [B, …]."""

    def log_prob(self, sample: Tensor) -> Tensor:
        """Log-probability, or log-density in environment units, of the action behind a sample: [B]."""

    def entropy(self) -> Tensor:
        """The entropy in nats, of the action in environment units: [B]."""

    def kl(self, other: Any) -> Tensor:
        """The divergence KL(self ‖ other) in nats, `other` being of the same class and space: [B]."""

    def env_action(self, sample: Tensor) -> Tensor:
        """The action in environment units, [B, *space.shape]."""

    def from_env_action(self, action: Tensor) -> Tensor:
        """The sample behind an action in environment units; actions on a bound are moved just inside."""

    @staticmethod
    def draw_noise(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Noise for samples whose parameters have this shape, on the generator's device."""


def sum_last(values: Tensor) -> Tensor:
    """Sum over the last dimension; free where it has one element."""
    return values.squeeze(-1) if values.shape[-1] == 1 else values.sum(-1)
