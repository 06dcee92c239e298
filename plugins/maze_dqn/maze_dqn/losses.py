"""Losses and targets of deep Q-learning as pure functions of tensors."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def huber(error: Tensor, kappa: float = 1.0) -> Tensor:
    """Return error² / 2 up to `kappa`, then kappa · (|error| - kappa / 2); any shape."""
    return F.huber_loss(error, torch.zeros_like(error), reduction="none", delta=kappa)


def project(probabilities: Tensor, support: Tensor, reward: Tensor, discount: Tensor) -> Tensor:
    """Return the distribution of reward + discount · Z on the support of Z (Bellemare et al., 1707.06887, Algorithm 1).

    What falls between two values of the support is shared by both in proportion to its distance from the other; what
    falls outside goes to the nearest end.

    Args:
        probabilities: [B, A] of Z.
        support: [A] values in equal steps, ascending.
        reward: [B]
        discount: [B], 0 where the episode terminated.

    Returns:
        [B, A]
    """
    low, high, count = support[0], support[-1], len(support)
    values = reward.unsqueeze(-1) + discount.unsqueeze(-1) * support
    place = (torch.maximum(torch.minimum(values, high), low) - low) * ((count - 1) / (high - low))  # [B, A]
    slots = torch.arange(count, device=support.device)
    # The share of value j that slot i gets: 1 at the slot, 0 from one step away.
    share = (1 - (place.unsqueeze(-1) - slots).abs()).clamp(min=0)  # [B, A (j), A (i)]
    projected: Tensor = torch.einsum("bj,bji->bi", probabilities, share)
    return projected


def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """Return -sum p log q over the last dimension, for target probabilities p and logits of q, [..., A] → [...]."""
    terms: Tensor = target * logits.log_softmax(-1)
    return -terms.sum(-1)


def entropy(probabilities: Tensor) -> Tensor:
    """Return -sum p log p over the last dimension, [..., A] → [...]."""
    terms: Tensor = torch.special.xlogy(probabilities, probabilities)
    return -terms.sum(-1)
