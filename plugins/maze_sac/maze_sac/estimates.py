"""What SAC's critics estimate, and so their target, their loss and what the policy climbs.

An estimate says how values [K, B, outputs] of K critics are used:

- `following`: the value of what follows, from the targets' values of a decision: [B], or samples of it [B, T].
- `objective`: what the policy climbs, [B], from the critics' values of its decision.
- `loss`: the critics' loss, shape (), for values of actions taken and targets that look like `following`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import torch
from maze_offpolicy import quantile_huber
from torch import Tensor

if TYPE_CHECKING:
    from maze_sac.actions import Decision
    from maze_sac.config import SACConfig


class LeastOfAll:
    """Expected returns; the least of all critics counts, for target and policy (Fujimoto et al., arXiv 1802.09477)."""

    def following(self, decision: Decision, values: Tensor) -> Tensor:
        """Return the least expectation, [B]."""
        return decision.least(values)

    objective = following

    def loss(self, values: Tensor, target: Tensor) -> Tensor:
        """Return half the mean squared error, summed over the critics."""
        return squared_error(values, target)


class LeastOfSome(LeastOfAll):
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


Estimate: TypeAlias = LeastOfAll | Quantiles


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


def squared_error(values: Tensor, target: Tensor) -> Tensor:
    """Return half the mean squared error, summed over K critics, shape (): values [K, B] and a target [B]."""
    return 0.5 * (values - target).square().mean(-1).sum()


def truncated(quantiles: Tensor, drop: int) -> Tensor:
    """Return the quantiles of K critics as one mixture without its largest `drop` per critic.

    [K, B, M] → [B, K (M - drop)], sorted. Kuznetsov et al., arXiv 2005.04269, eq. 10.
    """
    count, rows, each = quantiles.shape
    pooled = quantiles.transpose(0, 1).reshape(rows, count * each)
    return pooled.sort(-1).values[:, : count * (each - drop)]


def quantile_error(quantiles: Tensor, targets: Tensor) -> Tensor:
    """Return the quantile Huber loss, shape (): quantiles [K, B, M] of K critics and samples [B, T] of the return.

    The M quantiles are at the midpoints (m + 1/2) / M. Their errors are averaged over rows and pairs, and summed over
    the critics. Dabney et al., arXiv 1710.10044, eq. 10, with a threshold of 1.
    """
    return quantile_huber(quantiles, targets).mean(-1).sum() / quantiles.shape[-1]
