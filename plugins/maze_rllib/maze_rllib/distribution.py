"""Converts Maze's distributions to distributions of RLlib and back, with parameters as tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import torch
from maze_models.beta import Beta
from ray.rllib.core.distribution.distribution import Distribution
from torch import Tensor

from maze_core import ConfigError, TreeDistribution
from maze_core.models.distributions import (
    Bernoulli,
    Categorical,
    DiagonalGaussian,
    MultiCategorical,
    SquashedGaussian,
)

if TYPE_CHECKING:
    from maze_core import Policy, TensorTree

Parameters = dict[str, dict[str, Tensor]]
"""The parameters of a tree's distributions: by action leaf, then by name, each [B, …]."""


def parameters(distribution: TreeDistribution) -> Parameters:
    """Return the parameters for `rebuilt`, in the form that RLlib sends from environments to learner.

    Raises:
        ConfigError: the distribution is not one of Maze's own.
    """
    return {key: _parameters(key, part) for key, part in distribution.parts.items()}


def _parameters(key: str, part: Any) -> dict[str, Tensor]:
    if isinstance(part, Categorical | Bernoulli):
        return {"logits": part.logits}
    if isinstance(part, MultiCategorical):
        return {"logits": part.choices.logits}
    if isinstance(part, DiagonalGaussian | SquashedGaussian):
        return {"mean": part.mean, "log_std": part.log_std.expand_as(part.mean)}
    if isinstance(part, Beta):
        return {"alpha": part.alpha, "beta": part.beta}
    raise ConfigError(
        f"RLlib does not support the distribution {type(part).__name__} of action {key!r}",
        "model",
        "Use a model with Maze's own distributions, or one of Maze's algorithms.",
    )


def rebuilt(like: TreeDistribution, values: Parameters) -> TreeDistribution:
    """Return the distribution with these parameters, and with the classes and units of `like`."""
    parts: dict[str, Any] = {}
    for key, part in like.parts.items():
        scale = [part.scale] if isinstance(part, DiagonalGaussian | SquashedGaussian | Beta) else []
        parts[key] = type(part)(*[*values[key].values(), *scale])
    return TreeDistribution(parts)


class TreeAdapter(Distribution):  # type: ignore[misc]
    """A tree distribution as RLlib's losses use it: of samples, not of actions in the environment's units.

    `adapter` makes a subclass for each policy, which knows its classes and its noise.
    """

    like: ClassVar[TreeDistribution]
    policy: ClassVar[Policy]

    def __init__(self, tree: TreeDistribution) -> None:
        self.tree = tree

    @classmethod
    def from_logits(cls, logits: Any, **kwargs: Any) -> TreeAdapter:
        """Return the distribution with these parameters."""
        return cls(rebuilt(cls.like, {key: logits[key] for key in cls.like.parts}))

    def sample(self, *, sample_shape: Any = None, **kwargs: Any) -> TensorTree:
        """Return samples, leaves [B, …]."""
        with torch.no_grad():
            return self.rsample()

    def rsample(self, *, sample_shape: Any = None, **kwargs: Any) -> TensorTree:
        """Return samples, differentiable if the distribution is."""
        return self.tree.sample(self.policy.draw_noise((self._rows,), torch.default_generator))

    def logp(self, value: Any, **kwargs: Any) -> Tensor:
        """Return log-probabilities of samples, [B]."""
        return self.tree.log_prob(value)

    def entropy(self, **kwargs: Any) -> Tensor:
        """Return the entropy, [B]."""
        return self.tree.entropy()

    def kl(self, other: Distribution, **kwargs: Any) -> Tensor:
        """Return KL(self ‖ other), [B]."""
        return self.tree.kl(other.tree)

    def to_deterministic(self, **kwargs: Any) -> Distribution:
        """Return a distribution that always returns the most likely sample."""
        return _Mode(self.tree)

    @staticmethod
    def required_input_dim(space: Any, **kwargs: Any) -> int:
        """Not supported: the parameters are not a vector."""
        raise NotImplementedError

    @property
    def _rows(self) -> int:
        first = next(iter(self.tree.parts.values()))
        return len(next(iter(_parameters("", first).values())))


class _Mode(TreeAdapter):
    def sample(self, *, sample_shape: Any = None, **kwargs: Any) -> TensorTree:
        return self.tree.mode()


def adapter(policy: Policy, obs: TensorTree) -> type[TreeAdapter]:
    """Return the adapter class of a policy's distributions. `obs`: any observations, for one trial."""
    with torch.no_grad():
        like = policy.distribution(obs)
    parameters(like)
    return type("PolicyDistribution", (TreeAdapter,), {"like": like, "policy": policy})
