"""Distributions over discrete actions: one choice, several choices, several bits."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import torch
from torch.nn import functional as F

from maze_core.models.distributions.base import DRAWS

if TYPE_CHECKING:
    from torch import Tensor

_MASKED = -1e9
# Finite, so that a masked choice has probability exactly 0 while 0 * log(0) and its gradient stay 0, not NaN.


class Categorical:
    """One choice among n. Sample: int64 [B], which is also the environment's action.

    `logits` [B, n]; `mask` [B, n] with 0 for a forbidden choice. Where every choice is forbidden the
    distribution is uniform, to avoid NaN; `check_masks` reports such rows.
    """

    reparametrised: ClassVar[bool] = False
    bounded: ClassVar[bool] = True

    def __init__(self, logits: Tensor, mask: Tensor | None = None) -> None:
        self.logits = logits if mask is None else logits.masked_fill(mask == 0, _MASKED)
        self._log_probs: Tensor | None = None

    @property
    def log_probs(self) -> Tensor:
        """Log-probability of every choice, [B, n]."""
        if self._log_probs is None:
            self._log_probs = F.log_softmax(self.logits, -1)
        return self._log_probs

    @staticmethod
    def draw_noise(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Return standard Gumbel noise of the logits' shape."""
        return DRAWS["gumbel"](shape, generator)

    def sample(self, noise: Tensor) -> Tensor:
        """Return the arg max of logits plus Gumbel noise, which is distributed like the softmax."""
        # P(arg max = i) = softmax(logits)_i: the Gumbel-max trick (Maddison et al. 2014).
        return (self.logits + noise).argmax(-1)

    def mode(self) -> Tensor:
        """Return the most likely choice."""
        return self.logits.argmax(-1)

    def log_prob(self, sample: Tensor) -> Tensor:
        """Return the log-probability of the choices, [B]."""
        return self.log_probs.gather(-1, sample.unsqueeze(-1)).squeeze(-1)

    def entropy(self) -> Tensor:
        """Return the entropy, [B]."""
        return -(self.log_probs.exp() * self.log_probs).sum(-1)

    def kl(self, other: Categorical) -> Tensor:
        """Return KL(self ‖ other), [B]."""
        return (self.log_probs.exp() * (self.log_probs - other.log_probs)).sum(-1)

    def env_action(self, sample: Tensor) -> Tensor:
        """Return the choice unchanged."""
        return sample

    def from_env_action(self, action: Tensor) -> Tensor:
        """Return the choice unchanged."""
        return action


class MultiCategorical:
    """k independent choices. Sample: int64 [B, k], which is also the environment's action.

    `logits` [B, k, m], padded to the largest number of choices m by `pad_choices`; `mask` of the same shape.
    """

    reparametrised: ClassVar[bool] = False
    bounded: ClassVar[bool] = True

    def __init__(self, logits: Tensor, mask: Tensor | None = None) -> None:
        self.choices = Categorical(logits, mask)

    @staticmethod
    def draw_noise(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Return standard Gumbel noise of the padded logits' shape."""
        return Categorical.draw_noise(shape, generator)

    def sample(self, noise: Tensor) -> Tensor:
        """Return the arg max of logits plus Gumbel noise for each choice."""
        return self.choices.sample(noise)

    def mode(self) -> Tensor:
        """Return the most likely combination."""
        return self.choices.mode()

    def log_prob(self, sample: Tensor) -> Tensor:
        """Return the log-probability of the combination, [B]."""
        return self.choices.log_prob(sample).sum(-1)

    def entropy(self) -> Tensor:
        """Return the entropy of the joint, [B]."""
        return self.choices.entropy().sum(-1)

    def kl(self, other: MultiCategorical) -> Tensor:
        """Return KL(self ‖ other) of the joints, [B]."""
        return self.choices.kl(other.choices).sum(-1)

    def env_action(self, sample: Tensor) -> Tensor:
        """Return the choices unchanged."""
        return sample

    def from_env_action(self, action: Tensor) -> Tensor:
        """Return the choices unchanged."""
        return action


def pad_choices(flat: Tensor, slots: Tensor, size: tuple[int, int], fill: float = _MASKED) -> Tensor:
    """Return [B, sum(nvec)] spread over [B, k, max(nvec)].

    `slots` [sum(nvec)] are the flat positions of existing choices; the others get `fill`, by default a logit of
    probability 0.
    """
    if slots.numel() == size[0] * size[1]:
        return flat.reshape(*flat.shape[:-1], *size)
    padded = flat.new_full((*flat.shape[:-1], size[0] * size[1]), fill)
    return padded.index_copy(-1, slots, flat).reshape(*flat.shape[:-1], *size)


class Bernoulli:
    """n independent bits. Sample: int8 [B, n] of 0 and 1, which is also the environment's action.

    `logits` [B, n]; `mask` [B, n] with 0 where the bit must stay 0.
    """

    reparametrised: ClassVar[bool] = False
    bounded: ClassVar[bool] = True

    def __init__(self, logits: Tensor, mask: Tensor | None = None) -> None:
        self.logits = logits if mask is None else logits.masked_fill(mask == 0, _MASKED)

    @staticmethod
    def draw_noise(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Return standard logistic noise of the logits' shape."""
        return DRAWS["logistic"](shape, generator)

    def sample(self, noise: Tensor) -> Tensor:
        """Return the bits: 1 where a logit exceeds its logistic noise."""
        # P(noise < logit) is the logistic function of the logit.
        return (self.logits > noise).to(torch.int8)

    def mode(self) -> Tensor:
        """Return the most likely bits."""
        return (self.logits > 0).to(torch.int8)

    def log_prob(self, sample: Tensor) -> Tensor:
        """Return the log-probability of the bits, [B]."""
        # b log σ(l) + (1 - b) log(1 - σ(l)) = b l - log(1 + e^l), without a logarithm of 0.
        return (sample * self.logits - F.softplus(self.logits)).sum(-1)

    def entropy(self) -> Tensor:
        """Return the entropy of the joint, [B]."""
        # -E[log p(b)], where E[b] = σ(l).
        return (F.softplus(self.logits) - torch.sigmoid(self.logits) * self.logits).sum(-1)

    def kl(self, other: Bernoulli) -> Tensor:
        """Return KL(self ‖ other) of the joints, [B]."""
        # E[b] (l1 - l2) - log(1 + e^l1) + log(1 + e^l2).
        gap = torch.sigmoid(self.logits) * (self.logits - other.logits)
        return (gap - F.softplus(self.logits) + F.softplus(other.logits)).sum(-1)

    def env_action(self, sample: Tensor) -> Tensor:
        """Return the bits unchanged."""
        return sample

    def from_env_action(self, action: Tensor) -> Tensor:
        """Return the bits unchanged."""
        return action
