"""Returns as probabilities of M atoms, equally spaced between two bounds (Bellemare et al., arXiv 1707.06887)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def expectation(logits: Tensor, atoms: Tensor) -> Tensor:
    """Return the expected returns, [...], of distributions whose atoms [M] have the logits [..., M]."""
    return (logits.softmax(-1) * atoms).sum(-1)


def least_distribution(logits: Tensor, atoms: Tensor) -> Tensor:
    """Return for each row the probabilities of the critic that expects least: [K, B, M] → [B, M].

    It takes the place of the least value where critics estimate distributions (Fujimoto et al., arXiv 1802.09477).
    """
    probabilities = logits.softmax(-1)
    chosen = (probabilities * atoms).sum(-1).argmin(0)
    return probabilities.gather(0, chosen.view(1, -1, 1).expand(1, -1, logits.shape[-1]))[0]


def projected(probabilities: Tensor, returns: Tensor, atoms: Tensor) -> Tensor:
    """Return the probabilities of the atoms, [B, M], for returns [B, T] with probabilities [B, T].

    A return between two atoms is divided between them by its distances, so that the mean stays as it is. One beyond the
    bounds counts as the bound. Bellemare et al., arXiv 1707.06887, eq. 7.

    Args:
        probabilities: of the returns, each row with the sum 1.
        returns: such as r + discount * z for each atom z of what follows.
        atoms: [M], ascending and equally spaced; M > 1.
    """
    last = len(atoms) - 1
    places = ((returns - atoms[0]) * (last / (atoms[-1] - atoms[0]))).clamp(0, last)
    lower = places.long().clamp(0, last - 1)  # nan is a place, too: the loss is then nan, which says what is wrong
    above = places - lower
    result = torch.zeros(len(returns), last + 1, dtype=probabilities.dtype, device=probabilities.device)
    result = result.scatter_add(-1, lower, probabilities * (1 - above))
    return result.scatter_add(-1, lower + 1, probabilities * above)


def return_distribution(
    probabilities: Tensor, reward: Tensor, discount: Tensor, following: Tensor, atoms: Tensor
) -> Tensor:
    """Return the probabilities of the atoms as the return r + discount * z, [B, M].

    Where the discount is 0 nothing depends on what follows, to the last bit.

    Args:
        probabilities: of what follows, [B, M].
        reward: r, [B].
        discount: [B]; 0 at termination.
        following: z, the returns that have these probabilities: [M] or [B, M].
        atoms: [M].
    """
    reward, discount = reward.unsqueeze(-1), discount.unsqueeze(-1)
    probabilities = torch.where(discount == 0, 1 / len(atoms), probabilities)
    return projected(probabilities, torch.addcmul(reward, discount, following), atoms)


def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """Return the cross-entropy of logits [K, B, M] to a target [B, M]: mean over rows, sum over critics, shape ()."""
    return -(target * F.log_softmax(logits, -1)).sum(-1).mean(-1).sum()
