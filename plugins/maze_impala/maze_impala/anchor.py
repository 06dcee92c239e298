"""What APPO computes for each row before it learns."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def anchored(target: Tensor, acting: Tensor, bound: float | None) -> Tensor:
    """Return the log-probabilities [B] that those of the learning policy are compared with.

    The ratio of IMPACT is min(acting / target, bound) * learning / acting (Luo et al., arXiv 1912.00167, eq. 5), which
    is learning / max(target, acting / bound).

    Args:
        target: [B], log-probabilities of the actions under the target policy.
        acting: [B], under the policy that acted.
        bound: None: no bound; the target's alone.
    """
    return target if bound is None else torch.max(target, acting - math.log(bound))


def weighted_normal(values: Tensor, weight: Tensor) -> Tensor:
    """Return values [B] shifted and scaled to mean 0 and standard deviation 1; equal values become 0.

    `weight`: [B], summing to 1; rows of weight 0 do not count.
    """
    centred = values - values @ weight
    return centred / (centred.square() @ weight).sqrt().clamp(min=1e-8)
