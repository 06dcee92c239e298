"""Action distributions: what a policy head returns for one action leaf.

Written for speed: no validation, no broadcasting rules, and nothing computed before it is asked for.
"""

from maze_core.models.distributions.base import Distribution
from maze_core.models.distributions.beta import Beta
from maze_core.models.distributions.box import BoxScale
from maze_core.models.distributions.discrete import Bernoulli, Categorical, MultiCategorical
from maze_core.models.distributions.gaussian import DiagonalGaussian, SquashedGaussian

__all__ = [
    "Bernoulli",
    "Beta",
    "BoxScale",
    "Categorical",
    "DiagonalGaussian",
    "Distribution",
    "MultiCategorical",
    "SquashedGaussian",
]
