"""Action distributions: a policy head returns one for its action leaf. Families of them are plugins.

Written for speed: no validation, no broadcasting, and lazy computation.
"""

from maze_core.models.distributions.base import Distribution, Noise, draw
from maze_core.models.distributions.continuous import BoxScale, DiagonalGaussian, SquashedGaussian
from maze_core.models.distributions.discrete import Bernoulli, Categorical, MultiCategorical, pad_choices
from maze_core.models.distributions.family import Family, FamilyHead

__all__ = [
    "Bernoulli",
    "BoxScale",
    "Categorical",
    "DiagonalGaussian",
    "Distribution",
    "Family",
    "FamilyHead",
    "MultiCategorical",
    "Noise",
    "SquashedGaussian",
    "draw",
    "pad_choices",
]
