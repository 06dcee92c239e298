"""What a network learns of the return: its mean, its quantiles, or the probabilities of fixed values.

A network has A atoms for each choice. Each class here says what they mean, what the target of an action is and how far
the atoms are from it. M is the number of members of an action, each with its own chosen atoms and all with one target.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import torch
from maze_offpolicy import quantile_huber
from torch import Tensor, nn

from maze_dqn.losses import cross_entropy, entropy, huber, project

if TYPE_CHECKING:
    from maze_dqn.config import ReplayedConfig


class Returns(nn.Module, ABC):
    """What the atoms mean."""

    def __init__(self, atoms: int) -> None:
        super().__init__()
        self.atoms = atoms

    @abstractmethod
    def mean(self, atoms: Tensor) -> Tensor:
        """Return expected returns, [...], of atoms [..., A]."""

    @abstractmethod
    def target(self, following: Tensor, reward: Tensor, discount: Tensor) -> Tensor:
        """Return the target, [B, A], from the next action's atoms [B, M, A], rewards [B] and discounts [B]."""

    @abstractmethod
    def loss(self, chosen: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Return loss and size of the error, both [B], of chosen atoms [B, M, A] and their target [B, A]."""


class Expected(Returns):
    """One atom: the mean of the return, learnt with the Huber loss (Mnih et al. 2015)."""

    def __init__(self) -> None:
        super().__init__(1)

    def mean(self, atoms: Tensor) -> Tensor:
        """Return the only atom."""
        return atoms.squeeze(-1)

    def target(self, following: Tensor, reward: Tensor, discount: Tensor) -> Tensor:
        """Return r + discount * the members' mean."""
        return (reward + discount * following.squeeze(-1).mean(-1)).unsqueeze(-1)

    def loss(self, chosen: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean over members of the Huber loss and of the error's size."""
        error = (target.unsqueeze(1) - chosen).squeeze(-1)
        return huber(error).mean(-1), error.detach().abs().mean(-1)


class Quantiles(Returns):
    """Quantiles of the return (Dabney et al., arXiv 1710.10044)."""

    def mean(self, atoms: Tensor) -> Tensor:
        """Return the mean of the quantiles."""
        return atoms.mean(-1)

    def target(self, following: Tensor, reward: Tensor, discount: Tensor) -> Tensor:
        """Return r + discount * the members' mean of each quantile."""
        return reward.unsqueeze(-1) + discount.unsqueeze(-1) * following.mean(1)

    def loss(self, chosen: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean over members of the quantile Huber loss, and of the means' distance."""
        error = (target.mean(-1, keepdim=True) - chosen.detach().mean(-1)).abs()
        return quantile_huber(chosen, target.unsqueeze(1)).mean(-1), error.mean(-1)


class Probabilities(Returns):
    """Logits of the probabilities of fixed values in equal steps (Bellemare et al., arXiv 1707.06887)."""

    support: Tensor

    def __init__(self, atoms: int, low: float, high: float) -> None:
        super().__init__(atoms)
        self.register_buffer("support", torch.linspace(low, high, atoms), persistent=False)

    def mean(self, atoms: Tensor) -> Tensor:
        """Return the values' mean."""
        return atoms.softmax(-1) @ self.support

    def target(self, following: Tensor, reward: Tensor, discount: Tensor) -> Tensor:
        """Return the probabilities of r + discount * Z, with the members' mean of the probabilities of Z."""
        return project(following.softmax(-1).mean(1), self.support, reward, discount)

    def loss(self, chosen: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean over members of the cross-entropy, and of the divergence KL(target ‖ chosen)."""
        loss = cross_entropy(chosen, target.unsqueeze(1)).mean(-1)
        return loss, (loss.detach() - entropy(target)).clamp(min=0)


def build_returns(config: ReplayedConfig) -> Returns:
    """Return what the configuration's `head` says."""
    if config.head == "quantile":
        return Quantiles(config.quantiles)
    if config.head == "categorical":
        return Probabilities(config.atoms, config.value_min, config.value_max)
    return Expected()
