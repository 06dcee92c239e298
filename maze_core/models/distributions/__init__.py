"""Action distributions: a policy head returns one for its action leaf. Families of them are plugins.

Written for speed: no validation, no broadcasting, and lazy computation.
"""

from maze_core.models.distributions.base import Distribution
from maze_core.models.distributions.beta import Beta
from maze_core.models.distributions.box import BoxScale
from maze_core.models.distributions.discrete import Bernoulli, Categorical, MultiCategorical
from maze_core.models.distributions.family import Family, FamilyHead
from maze_core.models.distributions.gaussian import DiagonalGaussian, SquashedGaussian

__all__ = [
    "Bernoulli",
    "Beta",
    "BoxScale",
    "Categorical",
    "DiagonalGaussian",
    "Distribution",
    "Family",
    "FamilyHead",
    "MultiCategorical",
    "SquashedGaussian",
]
