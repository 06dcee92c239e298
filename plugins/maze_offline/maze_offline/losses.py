"""The objectives of offline algorithms as functions of tensors."""

from __future__ import annotations

import torch
from torch import Tensor


def expectile_loss(difference: Tensor, expectile: float) -> Tensor:
    """Return the mean of |expectile - 1(u < 0)| u² over the differences u (2110.06169, eq. 5), shape ()."""
    return (torch.where(difference < 0, 1 - expectile, expectile) * difference.square()).mean()


def advantage_weights(advantages: Tensor, beta: float, largest: float) -> Tensor:
    """Return exp(beta * advantage), at most `largest` (2110.06169, eq. 7), of the advantages' shape."""
    return torch.exp(beta * advantages).clamp(max=largest)


def value_weight(values: Tensor, alpha: float) -> Tensor:
    """Return alpha over the mean absolute value (2106.06860, eq. 5), a constant of shape ()."""
    return alpha / values.detach().abs().mean().clamp(min=1e-8)


def squared_errors(values: Tensor, target: Tensor) -> Tensor:
    """Return the mean squared error of values [K, B] to a target [B], summed over the K critics, shape ()."""
    return (values - target).square().mean(-1).sum()
