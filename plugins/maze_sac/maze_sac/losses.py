"""The losses of SAC's critics as pure functions of tensors."""

from __future__ import annotations

import torch
from torch import Tensor


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
    count = quantiles.shape[-1]
    midpoints = (torch.arange(count, device=quantiles.device, dtype=quantiles.dtype) + 0.5) / count
    errors = targets.unsqueeze(1) - quantiles.unsqueeze(-1)  # [K, B, M, T]
    size = errors.detach().abs()
    huber = torch.where(size <= 1, 0.5 * errors.square(), errors.abs() - 0.5)
    weight = (midpoints.unsqueeze(-1) - (errors.detach() < 0).to(errors.dtype)).abs()
    return (weight * huber).mean((1, 2, 3)).sum()
