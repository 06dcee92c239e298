"""What SAC needs of actions: the policy's decision, its entropy, the entropy aimed at and the weight of it."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from maze_offpolicy import JointActions, bounded_sample, joined
from torch import Tensor, nn
from torch.nn import functional as F

from maze_core.models.distributions import Bernoulli, Categorical, MultiCategorical, SquashedGaussian
from maze_core.models.distributions.base import sum_last
from maze_core.models.distributions.continuous import HALF_LOG_2PI, log_tanh_slope
from maze_core.models.inputs import joined_mask

if TYPE_CHECKING:
    from maze_core import TensorTree, TreeDistribution
    from maze_core.models.distributions import BoxScale

_REACHABLE = 0.98
# Target entropy of a choice as a share of its largest entropy (Christodoulou 2019, arXiv 1910.07207).


@dataclass(frozen=True, slots=True)
class Decision:
    """A policy's decision for B observations: a sample of Box leaves, the probabilities of discrete leaves."""

    box: Tensor | None
    """[B, d] sampled actions in [-1, 1], differentiable; None where no leaf is a Box."""
    probabilities: Tensor | None
    """[B, C] of every choice of every discrete leaf; None where there is none."""
    negative_entropy: Tensor
    """[B] log-density of the sample plus the discrete leaves' negative entropy, Box leaves measured in [-1, 1]."""

    def rows(self, places: Tensor) -> Decision:
        """Return the decision for some of the observations, by their places [b]."""
        box, probabilities = (None if leaf is None else leaf[places] for leaf in (self.box, self.probabilities))
        return Decision(box, probabilities, self.negative_entropy[places])

    def expected(self, values: Tensor) -> Tensor:
        """Return the expected value of the action, [..., B], from values [..., B, C] of its choices."""
        return values.squeeze(-1) if self.probabilities is None else (self.probabilities * values).sum(-1)

    def least(self, values: Tensor) -> Tensor:
        """Return the least of the K critics' expectations, [B], from their values [K, B, C].

        Not the expectation of the lesser values: the critics learn only the sum over an action's choices, and may
        split it in different ways. The minimum for each choice could then fall below all sums.
        """
        least: Tensor = functools.reduce(torch.minimum, self.expected(values))
        return least


def decide(actions: JointActions, distribution: TreeDistribution, noise: TensorTree) -> Decision:
    """Return the policy's decision; `noise` determines the Box leaves."""
    samples, terms, log_probs = [], [], []
    for key, scale in actions.boxes.items():
        sample, log_density = draw(distribution.parts[key], noise[key], scale)
        samples.append(sample)
        terms.append(log_density)
    for key, sizes in actions.choices.items():
        log_probs.append(log_probabilities(distribution.parts[key], sizes))
    joint = joined(log_probs)
    probabilities = None if joint is None else joint.exp()
    if joint is not None and probabilities is not None:
        terms.append((probabilities * joint).sum(-1))
    return Decision(joined(samples), probabilities, sum(terms[1:], terms[0]))


def target_entropy(actions: JointActions, obs: TensorTree, acting: TensorTree | None = None) -> Tensor | float:
    """Return minus one per Box dimension plus 0.98 log n per choice among n, one number or [B].

    With a mask, n counts the allowed choices. With `acting`, only the leaves of each row's actor count.
    """
    total: Tensor | float = 0.0
    for key, scale in actions.boxes.items():
        total = total - _counted(float(scale.size), key, acting)
    for key, sizes in actions.choices.items():
        if key in actions.masks:
            largest: Tensor | float = _largest_entropy(joined_mask(obs, actions.masks[key]), sizes, len(sizes))
        else:
            largest = sum(math.log(size) for size in sizes)
        total = total + _counted(_REACHABLE * largest, key, acting)
    return total


def _counted(entropy: Tensor | float, key: str, acting: TensorTree | None) -> Tensor | float:
    return entropy if acting is None else entropy * acting[key]


def draw(part: Any, noise: Tensor, scale: BoxScale) -> tuple[Tensor, Tensor]:
    """Return a sample in [-1, 1] and its log-density there, [B, d] and [B].

    Not the density in environment units: the target entropy must not depend on them. As the noise of the sample is
    known, the normal's part of the density of a squashed Gaussian does not depend on the mean.
    """
    if not isinstance(part, SquashedGaussian):
        return bounded_sample(part, noise, scale)
    value = part.sample(noise)
    normal = -0.5 * noise.square() - HALF_LOG_2PI
    return torch.tanh(value), sum_last(normal - part.log_std - log_tanh_slope(value))


def log_probabilities(part: Any, sizes: list[int]) -> Tensor:
    """Return the log-probability of every choice of a discrete leaf, [B, C]."""
    if isinstance(part, Categorical):
        return part.log_probs
    if isinstance(part, MultiCategorical):
        padded = part.choices.log_probs
        return torch.cat([padded[:, member, :size] for member, size in enumerate(sizes)], -1)
    if isinstance(part, Bernoulli):
        return torch.stack((F.logsigmoid(-part.logits), F.logsigmoid(part.logits)), -1).flatten(1)
    log_probs: Tensor = part.log_probs
    return log_probs


def _largest_entropy(mask: Tensor, sizes: list[int], members: int) -> Tensor:
    """Return the sum of log(allowed choices) over the members of a leaf, [B]."""
    allowed = mask != 0
    if allowed.shape[1] == members and sizes == [2] * members:
        # A forbidden bit stays 0: one choice is allowed.
        return allowed.float().log1p().sum(-1)
    left = torch.stack([part.sum(-1) for part in torch.split(allowed, sizes, -1)], -1)
    return left.clamp(min=1).float().log().sum(-1)


class Temperature(nn.Module):
    """The entropy coefficient, learnt as its logarithm, or as it was given."""

    given: Tensor

    def __init__(self, initial: float, learns: bool) -> None:
        super().__init__()
        self.log_coef = nn.Parameter(torch.tensor(initial).log(), requires_grad=learns)
        # In no checkpoint: a resumed run may be given another one.
        self.register_buffer("given", self.log_coef.detach().clone(), persistent=False)

    def coefficient(self) -> Tensor:
        """The coefficient, without gradient, shape ()."""
        return (self.log_coef.detach() if self.log_coef.requires_grad else self.given).exp()

    def give(self, coefficient: float) -> None:
        """Set the coefficient that does not learn."""
        self.given.copy_(torch.tensor(coefficient).log())

    def loss(self, surplus: Tensor) -> Tensor:
        """Return the coefficient's loss for an entropy that exceeds its target by `surplus`, both of shape ()."""
        return self.log_coef * surplus
