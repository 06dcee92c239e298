"""The joint distribution of all action leaves."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import Tensor

    from maze_core.base.tree import TensorTree
    from maze_core.models.distributions import Distribution


@dataclass(frozen=True, slots=True)
class TreeDistribution:
    """The product of independent distributions, one for each action leaf.

    Log-probabilities, entropies and divergences are sums over leaves and dimensions, of shape [B].
    """

    parts: dict[str, Distribution]

    def sample(self, noise: TensorTree) -> TensorTree:
        """Return samples, leaves [B, …], computed from noise of `Policy.draw_noise`."""
        return {key: part.sample(noise[key]) for key, part in self.parts.items()}

    def mode(self) -> TensorTree:
        """Return the samples for acting deterministically, leaves [B, …]."""
        return {key: part.mode() for key, part in self.parts.items()}

    def log_prob(self, samples: TensorTree) -> Tensor:
        """Return the joint log-probability (density in environment units) of samples, [B]."""
        return _total(part.log_prob(samples[key]) for key, part in self.parts.items())

    def entropy(self) -> Tensor:
        """Return the joint entropy in nats, [B]."""
        return _total(part.entropy() for part in self.parts.values())

    def kl(self, other: TreeDistribution) -> Tensor:
        """Return KL(self ‖ other) in nats, [B]."""
        return _total(part.kl(other.parts[key]) for key, part in self.parts.items())

    def snapshot(self) -> TreeDistribution:
        """Return the distribution as it is now, for a comparison later: some hold parameters, which change in place.

        Call it on a distribution that was made without gradients.
        """
        return TreeDistribution(copy.deepcopy(self.parts))

    def env_action(self, samples: TensorTree) -> TensorTree:
        """Return the actions in environment units for some samples."""
        return {key: part.env_action(samples[key]) for key, part in self.parts.items()}

    def from_env_action(self, actions: TensorTree) -> TensorTree:
        """Return the samples for actions in environment units; actions on a bound move just inside."""
        return {key: part.from_env_action(actions[key]) for key, part in self.parts.items()}


def _total(terms: Iterable[Tensor]) -> Tensor:
    return reduce(torch.add, terms)
