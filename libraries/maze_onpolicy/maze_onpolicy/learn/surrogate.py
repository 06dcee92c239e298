"""The clipped surrogate objective, for each row (Schulman et al., arXiv 1707.06347)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def clipped_surrogate(ratio: Tensor, advantage: Tensor, clip_range: Any) -> Tensor:
    """Return the negated clipped objective of eq. 7 for each row: -min(r A, clip(r, 1 - eps, 1 + eps) A), [B].

    Computed as max(-A r, -A - eps |A|), which is equal and has a cheaper gradient.

    Args:
        ratio: [B], probability of the action under the new policy divided by that under the old policy.
        advantage: [B]
        clip_range: eps; a tensor of shape () in steps that are recorded, where it has a schedule.
    """
    loss, size = -advantage, advantage.abs()
    scheduled = isinstance(clip_range, Tensor)
    return (ratio * loss).clamp(min=loss - clip_range * size if scheduled else torch.sub(loss, size, alpha=clip_range))


def row_divergence(log_ratio: Tensor) -> Tensor:
    """Return a sample of KL(old || new) for each row, [B]: (r - 1) - log r, never negative.

    The low-variance estimator k3 of Schulman, "Approximating KL Divergence" (2020); its mean over samples of the old
    policy is the divergence. `log_ratio`: [B].
    """
    return log_ratio.exp() - 1 - log_ratio
