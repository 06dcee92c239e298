"""The quantile Huber loss, from which critics learn the distribution of the return."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def quantile_huber(quantiles: Tensor, samples: Tensor, kappa: float = 1.0) -> Tensor:
    """Return the quantile Huber loss (Dabney et al., arXiv 1710.10044, eq. 10): sum over quantiles, mean over samples.

    For an error u > 0 the Huber loss is u² / 2, less (u - kappa)² / 2 where u exceeds kappa. So all terms of a quantile
    are sums of squared distances of samples from a point. Cumulative sums over the sorted samples give each of them at
    once: time and memory do not grow with M T, the number of pairs.

    Args:
        quantiles: [..., M], estimates of the quantiles at (m + 1/2) / M.
        samples: [..., T] of the distribution, in any order; constants. Leading dimensions are broadcast.
        kappa: size of the error from which on the loss is linear.

    Returns:
        [...]
    """
    each, count = quantiles.shape[-1], samples.shape[-1]
    rows = np.broadcast_shapes(quantiles.shape[:-1], samples.shape[:-1])
    # Around 0 and in double precision: differences of large sums would lose digits.
    center = samples.detach().mean(-1, keepdim=True)
    ordered = (samples.detach() - center).double().sort(-1).values.expand(*rows, count)
    theta = (quantiles - center).double().expand(*rows, each)

    points = torch.cat((theta, theta - kappa, theta + kappa), -1)
    all_at, all_above = _squared_distances(ordered, points)
    at, lower, _ = all_at.chunk(3, -1)
    above, _, higher = all_above.chunk(3, -1)
    fractions = (torch.arange(each, device=theta.device, dtype=theta.dtype) + 0.5) / each
    weighted = torch.lerp(at - lower, above - higher, fractions)
    loss: Tensor = weighted.sum(-1) / (kappa * count)
    return loss.to(quantiles.dtype)


def _squared_distances(ordered: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
    """Return the sums of (sample - point)² / 2 over the samples below each point, and over those above, both [..., P].

    Samples [..., T] ascend; points are [..., P].
    """
    squares = ordered.square()
    zero = ordered.new_zeros(*ordered.shape[:-1], 1)
    places = torch.searchsorted(ordered.contiguous(), points.detach())
    sums, sums_of_squares = (torch.cat((zero, each.cumsum(-1)), -1).gather(-1, places) for each in (ordered, squares))
    below = points * (0.5 * points * places - sums) + 0.5 * sums_of_squares
    total = points * (0.5 * points * ordered.shape[-1] - ordered.sum(-1, keepdim=True))
    return below, total + 0.5 * squares.sum(-1, keepdim=True) - below
