"""The interface of action distributions."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor


class Distribution(Protocol):
    """A batch of B independent distributions over one action leaf.

    A distribution draws *samples*, which are not always in environment units: a squashed Gaussian samples the
    value before the tanh, so that its log-probability stays exact. `env_action` turns samples into
    environment units. Log-densities are those of the action in environment units, summed over its dimensions.
    """

    def sample(self, noise: Tensor) -> Tensor:
        """Return a sample [B, …], computed from noise of `draw_noise`; differentiable for Gaussians."""

    def mode(self) -> Tensor:
        """Return the sample for acting deterministically, [B, …]."""

    def log_prob(self, sample: Tensor) -> Tensor:
        """Return the log-probability, or log-density in environment units, of a sample's action, [B]."""

    def entropy(self) -> Tensor:
        """Return the entropy in nats of the action in environment units, [B]."""

    def kl(self, other: Any) -> Tensor:
        """Return KL(self ‖ other) in nats, [B]. `other` has the same class and space."""

    def env_action(self, sample: Tensor) -> Tensor:
        """Return the action in environment units, [B, *space.shape]."""

    def from_env_action(self, action: Tensor) -> Tensor:
        """Return the sample for an action in environment units; actions on a bound move just inside."""

    @staticmethod
    def draw_noise(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Return noise for distributions whose parameters have this shape, on the generator's device."""


def sum_last(values: Tensor) -> Tensor:
    """Return the sum over the last dimension; a view where it has one element."""
    return values.squeeze(-1) if values.shape[-1] == 1 else values.sum(-1)
