"""The mathematics of PPO as pure functions (Schulman et al., arXiv 1707.06347)."""

from __future__ import annotations

import torch
from torch import Tensor


def clipped_surrogate(ratio: Tensor, advantage: Tensor, clip_range: float) -> Tensor:
    """Return the negated clipped objective of eq. 7 for each row: -min(r A, clip(r, 1 - eps, 1 + eps) A), [B].

    Computed as max(-A r, -A - eps |A|), which is equal and has a cheaper gradient.

    Args:
        ratio: [B], probability of the action under the new policy divided by that under the old policy.
        advantage: [B]
        clip_range: eps.
    """
    loss = -advantage
    return (ratio * loss).clamp(min=torch.sub(loss, advantage.abs(), alpha=clip_range))


def value_loss(value: Tensor, old_value: Tensor, target: Tensor, clip_range: float | None) -> Tensor:
    """Return the critic's squared error, [B]; with `clip_range` the larger of the plain and the clipped one.

    Args:
        value: [B], current prediction.
        old_value: [B], prediction when the rollout was collected.
        target: [B]
        clip_range: how far `value` may move from `old_value`; None: no clipping.
    """
    error = (value - target).square()
    if clip_range is None:
        return error
    clipped = old_value + (value - old_value).clamp(-clip_range, clip_range)
    return torch.max(error, (clipped - target).square())


def approximate_kl(log_ratio: Tensor) -> Tensor:
    """Return KL(old || new) estimated from samples of the old policy: mean of (r - 1) - log r, never negative.

    The low-variance estimator k3 of Schulman, "Approximating KL Divergence" (2020). `log_ratio`: [B].
    """
    return (log_ratio.exp() - 1 - log_ratio).mean()
