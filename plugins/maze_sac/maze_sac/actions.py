"""Action spaces in SAC: Box leaves are inputs of the critics, discrete leaves have a value per choice."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from gymnasium import spaces
from torch import Tensor, nn
from torch.nn import functional as F

from maze_core.envs.spaces import flatten_space
from maze_core.errors import ConfigError
from maze_core.models.distributions import Bernoulli, BoxScale, Categorical, MultiCategorical, SquashedGaussian
from maze_core.models.distributions.base import sum_last
from maze_core.models.distributions.box import HALF_LOG_2PI
from maze_core.models.distributions.gaussian import log_tanh_slope
from maze_core.models.masks import mask_keys

if TYPE_CHECKING:
    from gymnasium import Space

    from maze_core.data.batch import TensorTree
    from maze_core.models.tree_distribution import TreeDistribution

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

    def expected(self, values: Tensor) -> Tensor:
        """Return the expected value of the action, [..., B], from values [..., B, C] of its choices."""
        return values.squeeze(-1) if self.probabilities is None else (self.probabilities * values).sum(-1)

    def least(self, values: Tensor) -> Tensor:
        """Return the lesser of the twin critics' expectations, [B], from their values [2, B, C].

        Not the expectation of the lesser values: the critics learn only the sum over an action's choices, and may
        split it in different ways. The minimum for each choice could then fall below both sums.
        """
        return torch.minimum(*self.expected(values))


class JointActions(nn.Module):
    """All action leaves of an environment: d dimensions of Box leaves, C choices of discrete ones.

    A choice is a value of a Discrete, a value of a MultiDiscrete's member, or a value (0 or 1) of a MultiBinary's bit.
    The value of an action is the sum of the values of its choices, which the critics return for given Box actions.
    With Box leaves only they return one value.
    """

    def __init__(self, observation_space: Space[Any], action_space: Space[Any]) -> None:
        super().__init__()
        leaves = flatten_space(action_space, "action")
        self._boxes = {key: BoxScale(space) for key, space in leaves.items() if isinstance(space, spaces.Box)}
        self._scales = nn.ModuleList(self._boxes.values())
        self._sizes = {key: _choices(space) for key, space in leaves.items() if key not in self._boxes}
        self._masks = mask_keys(observation_space, action_space)
        self.box_size = sum(scale.size for scale in self._boxes.values())
        sizes = [size for members in self._sizes.values() for size in members]
        self.choice_count = sum(sizes)
        # The first of each member's choices among all C.
        starts = torch.tensor([sum(sizes[:i]) for i in range(len(sizes))], dtype=torch.int64)
        self.register_buffer("starts", starts, persistent=False)

    starts: Tensor

    @property
    def outputs(self) -> int:
        """Number of values that a critic returns: one per choice, or one."""
        return self.choice_count or 1

    def canonical(self, actions: TensorTree) -> Tensor | None:
        """Return the Box leaves of actions in environment units, concatenated and scaled to [-1, 1], [B, d]."""
        return _joined([scale.to_canonical(actions[key]) for key, scale in self._boxes.items()])

    def chosen(self, values: Tensor, actions: TensorTree) -> Tensor:
        """Return the values of actions, [2, B], from the critics' values [2, B, C]."""
        if not self._sizes:
            return values.squeeze(-1)
        members = [actions[key].reshape(values.shape[1], -1).long() for key in self._sizes]
        index = torch.cat(members, -1) + self.starts
        return values.gather(-1, index.expand(2, -1, -1)).sum(-1)

    def decide(self, distribution: TreeDistribution, noise: TensorTree) -> Decision:
        """Return the policy's decision; `noise` determines the Box leaves."""
        samples, terms, log_probs = [], [], []
        for key in self._boxes:
            sample, log_density = _draw(distribution.parts[key], noise[key])
            samples.append(sample)
            terms.append(log_density)
        for key, sizes in self._sizes.items():
            log_probs.append(_log_probs(distribution.parts[key], sizes))
        joint = _joined(log_probs)
        probabilities = None if joint is None else joint.exp()
        if joint is not None and probabilities is not None:
            terms.append((probabilities * joint).sum(-1))
        return Decision(_joined(samples), probabilities, sum(terms[1:], terms[0]))

    def target_entropy(self, obs: TensorTree) -> Tensor | float:
        """Return minus one per Box dimension plus 0.98 log n per choice among n, one number or [B].

        With a mask, n counts the allowed choices.
        """
        total: Tensor | float = -float(self.box_size)
        for key, sizes in self._sizes.items():
            if key in self._masks:
                total = total + _REACHABLE * _largest_entropy(obs[self._masks[key]], sizes, len(sizes))
            else:
                total = total + _REACHABLE * sum(math.log(size) for size in sizes)
        return total

    def check(self, distribution: TreeDistribution) -> None:
        """Raise ConfigError unless the samples of all Box leaves are differentiable and bounded."""
        for key in self._boxes:
            part = distribution.parts[key]
            if not isinstance(part, SquashedGaussian):
                raise ConfigError(
                    f"SAC needs a squashed Gaussian for the Box action {key!r}, the model has a {type(part).__name__}",
                    "model.distribution",
                    "Next: --set model.distribution=squashed_gaussian",
                )


def _draw(part: Any, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Return a sample in [-1, 1] and its log-density there, [B, d] and [B].

    Not the density in environment units: the target entropy must not depend on them. As the noise of the sample is
    known, the normal's part of the density does not depend on the mean.
    """
    value = part.sample(noise)
    normal = -0.5 * noise.square() - HALF_LOG_2PI
    return torch.tanh(value), sum_last(normal - part.log_std - log_tanh_slope(value))


def _choices(space: Space[Any]) -> list[int]:
    """Return the number of choices of each member of a discrete leaf."""
    if isinstance(space, spaces.Discrete):
        return [int(space.n)]
    if isinstance(space, spaces.MultiDiscrete):
        return [int(n) for n in space.nvec]
    return [2] * int(space.shape[0])  # type: ignore[index]


def _log_probs(part: Any, sizes: list[int]) -> Tensor:
    """Return the log-probability of every choice of a discrete leaf, [B, C]."""
    if isinstance(part, Categorical):
        return part.log_probs
    if isinstance(part, MultiCategorical):
        padded = part.choices.log_probs
        return torch.cat([padded[:, member, :size] for member, size in enumerate(sizes)], -1)
    if isinstance(part, Bernoulli):
        return torch.stack((F.logsigmoid(-part.logits), F.logsigmoid(part.logits)), -1).flatten(1)
    raise ConfigError(f"SAC does not know the distribution {type(part).__name__}", "model")


def _largest_entropy(mask: Tensor, sizes: list[int], members: int) -> Tensor:
    """Return the sum of log(allowed choices) over the members of a leaf, [B]."""
    allowed = (mask != 0).reshape(len(mask), -1)
    if allowed.shape[1] == members and sizes == [2] * members:
        # A forbidden bit stays 0: one choice is allowed.
        return allowed.float().log1p().sum(-1)
    left = torch.stack([part.sum(-1) for part in torch.split(allowed, sizes, -1)], -1)
    return left.clamp(min=1).float().log().sum(-1)


def _joined(parts: list[Tensor]) -> Tensor | None:
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else torch.cat(parts, -1)
