"""What SAC's critics estimate, and so their target, their loss and what the policy climbs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from maze_sac.losses import quantile_error, squared_error, truncated

if TYPE_CHECKING:
    from maze_sac.actions import Decision
    from maze_sac.config import SACConfig


class Estimate(Protocol):
    """How values [K, B, outputs] of K critics are used."""

    def following(self, decision: Decision, values: Tensor) -> Tensor:
        """Return the value of what follows, from the targets' values of a decision: [B], or samples of it [B, T]."""

    def objective(self, decision: Decision, values: Tensor) -> Tensor:
        """Return what the policy climbs, [B], from the critics' values of its decision."""

    def loss(self, values: Tensor, target: Tensor) -> Tensor:
        """Return the critics' loss, shape (), for values of actions taken and targets that look like `following`."""


class LeastOfAll:
    """Expected returns; the least of all critics counts, for target and policy (Fujimoto et al., arXiv 1802.09477)."""

    def following(self, decision: Decision, values: Tensor) -> Tensor:
        """Return the least expectation, [B]."""
        return decision.least(values)

    objective = following

    def loss(self, values: Tensor, target: Tensor) -> Tensor:
        """Return half the mean squared error, summed over the critics."""
        return squared_error(values, target)


class LeastOfSome:
    """Expected returns; the target takes the least of some critics, drawn for each batch, the policy the mean of all.

    Chen et al., arXiv 2101.05982 (REDQ), Algorithm 1.
    """

    def __init__(self, count: int, chance: torch.Generator) -> None:
        self._count, self._chance = count, chance

    def following(self, decision: Decision, values: Tensor) -> Tensor:
        """Return the least expectation of the critics that were drawn, [B]."""
        drawn = torch.randperm(len(values), generator=self._chance, device=values.device)[: self._count]
        return decision.least(values[drawn])

    def objective(self, decision: Decision, values: Tensor) -> Tensor:
        """Return the mean expectation of all critics, [B]."""
        return decision.expected(values).mean(0)

    def loss(self, values: Tensor, target: Tensor) -> Tensor:
        """Return half the mean squared error, summed over the critics."""
        return squared_error(values, target)


class Quantiles:
    """Quantiles of the return; the target leaves out the largest, the policy climbs their mean.

    Kuznetsov et al., arXiv 2005.04269 (TQC).
    """

    def __init__(self, drop: int) -> None:
        self._drop = drop

    def following(self, decision: Decision, values: Tensor) -> Tensor:
        """Return the quantiles of all critics but the largest, [B, T]."""
        return truncated(values, self._drop)

    def objective(self, decision: Decision, values: Tensor) -> Tensor:
        """Return the mean of all quantiles of all critics, [B]."""
        return values.mean((0, 2))

    def loss(self, values: Tensor, target: Tensor) -> Tensor:
        """Return the quantile Huber loss, summed over the critics."""
        return quantile_error(values, target)


def estimate_of(config: SACConfig, chance: torch.Generator) -> Estimate:
    """Return what the configured critics estimate; `chance`: what subsets are drawn with."""
    if config.quantiles > 1:
        return Quantiles(config.drop_top)
    return LeastOfAll() if config.target_subset is None else LeastOfSome(config.target_subset, chance)


def soft_target(reward: Tensor, discount: Tensor, following: Tensor, bonus: Tensor) -> Tensor:
    """Return r + discount * (following + bonus), shaped like `following`, [B] or [B, T]; the others are [B].

    Haarnoja et al., arXiv 1812.05905, eq. 3 and 5; `bonus` is that of the entropy, -alpha log pi.
    """
    if following.dim() > 1:
        reward, discount, bonus = reward.unsqueeze(-1), discount.unsqueeze(-1), bonus.unsqueeze(-1)
    return torch.addcmul(reward, discount, following + bonus)
