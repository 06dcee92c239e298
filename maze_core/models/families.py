"""The families of distributions that come with Maze."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from gymnasium import spaces

from maze_core.models.distributions import (
    Bernoulli,
    Beta,
    Categorical,
    DiagonalGaussian,
    MultiCategorical,
    SquashedGaussian,
)
from maze_core.models.distributions.family import Family
from maze_core.models.heads import (
    BernoulliHead,
    BetaHead,
    CategoricalHead,
    GaussianConfig,
    GaussianHead,
    LogitsConfig,
    MultiCategoricalHead,
)

if TYPE_CHECKING:
    from maze_core.models.distributions.base import Distribution


class CategoricalFamily(Family):
    """One choice, by the softmax of logits; for Discrete."""

    Config = LogitsConfig
    spaces = (spaces.Discrete,)
    gives: ClassVar[type[Distribution]] = Categorical

    def head(self, space: Any, features: int) -> CategoricalHead:
        """Return a linear layer for the logits."""
        return CategoricalHead(space, features, self.config)


class MultiCategoricalFamily(Family):
    """Several independent choices, each by the softmax of logits; for MultiDiscrete."""

    Config = LogitsConfig
    spaces = (spaces.MultiDiscrete,)
    gives: ClassVar[type[Distribution]] = MultiCategorical

    def head(self, space: Any, features: int) -> MultiCategoricalHead:
        """Return a linear layer for all logits."""
        return MultiCategoricalHead(space, features, self.config)


class BernoulliFamily(Family):
    """Independent bits; for MultiBinary."""

    Config = LogitsConfig
    spaces = (spaces.MultiBinary,)
    gives: ClassVar[type[Distribution]] = Bernoulli

    def head(self, space: Any, features: int) -> BernoulliHead:
        """Return a linear layer for the logits."""
        return BernoulliHead(space, features, self.config)


class GaussianFamily(Family):
    """Independent normals, clipped to the bounds in the environment; for Box."""

    Config = GaussianConfig
    spaces = (spaces.Box,)
    gives: ClassVar[type[Distribution]] = DiagonalGaussian

    def head(self, space: Any, features: int) -> GaussianHead:
        """Return a linear layer for the mean."""
        return GaussianHead(space, features, self.config)


class SquashedGaussianFamily(Family):
    """The tanh of independent normals, scaled to the bounds; for Box with finite bounds."""

    Config = GaussianConfig
    spaces = (spaces.Box,)
    gives: ClassVar[type[Distribution]] = SquashedGaussian

    def head(self, space: Any, features: int) -> GaussianHead:
        """Return a linear layer for the mean before the tanh."""
        return GaussianHead(space, features, self.config, squashed=True)


class BetaFamily(Family):
    """Independent Betas over the bounds; for Box with finite bounds."""

    spaces = (spaces.Box,)
    gives: ClassVar[type[Distribution]] = Beta

    def head(self, space: Any, features: int) -> BetaHead:
        """Return a linear layer for both concentrations."""
        return BetaHead(space, features)
