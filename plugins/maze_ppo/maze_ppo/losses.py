"""The mathematics of PPO as pure functions (Schulman et al., arXiv 1707.06347)."""

from __future__ import annotations

import torch
from torch import Tensor


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
