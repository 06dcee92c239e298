"""The objectives of offline algorithms as functions of tensors."""

from __future__ import annotations

import math

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


def log_integral(values: Tensor, log_densities: Tensor) -> Tensor:
    """Return log of the integral of exp(value) over actions, estimated from N samples (2006.04779, appendix F).

    Args:
        values: of sampled actions, [..., N, B].
        log_densities: of the distributions that they were sampled from, [N, B].

    Returns:
        log mean exp(value - log-density), [..., B].
    """
    return torch.logsumexp(values - log_densities, -2) - math.log(values.shape[-2])
