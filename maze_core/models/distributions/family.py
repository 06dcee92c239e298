"""The base class of distribution plugins: how a policy's features become distributions over one action leaf."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import torch
from gymnasium import spaces
from torch import Tensor, nn

from maze_core.base.errors import PluginError
from maze_core.models.blocks import Dense
from maze_core.models.distributions.base import DRAWS, Distribution, Noise, draw, row_shape
from maze_core.models.distributions.continuous import BoxScale
from maze_core.plugins.config.base import PluginConfig

if TYPE_CHECKING:
    from gymnasium import Space


class Family:
    """A family of distributions, which a run selects by `model.distribution`.

        [project.entry-points."maze.distributions"]
        laplace = "maze_laplace:LaplaceFamily"

    A linear layer turns the policy's features into `size` numbers for each row, small ones at first; `distribution`
    makes distributions of them. Override `size`, `noise` and `distribution`, or `head` alone for layers of your own.

    Raises:
        ConfigError: `size` may raise it for a space of `spaces` that does not fit.
    """

    Config: ClassVar[type[PluginConfig]] = PluginConfig
    """Parameters. One that is called like a parameter of every model (`temperature`, `log_std_init`,
    `state_dependent_std`) has the model's value unless it is given."""
    spaces: ClassVar[tuple[type[Space[Any]], ...]] = ()
    """The kinds of action leaves: Box, Discrete, MultiDiscrete or MultiBinary. Others have their default."""
    gives: ClassVar[type[Distribution]]
    """The class of its distributions. Where it is `bounded`, a Box must have finite bounds."""

    def __init__(self, config: Any) -> None:
        self.config = config

    def size(self, space: Space[Any]) -> int:
        """Return how many parameters a row of the distribution has that depend on the observation."""
        raise NotImplementedError

    def free(self, space: Space[Any]) -> Tensor | None:
        """Return initial values [m] of learnt parameters that do not depend on the observation; None: there are none.

        They follow those of `size` in each row.
        """
        return None

    def noise(self, space: Space[Any]) -> Noise:
        """Return the noise of one row of samples, such as `{"standard_normal": (2,)}`: shapes by what is drawn.

        That is `gumbel`, `logistic`, `standard_exponential`, `standard_normal` or `uniform`. `sample` gets one draw as
        [B, *shape]; several are flat and one after the other, [B, n].
        """
        raise NotImplementedError

    def distribution(self, parameters: Tensor, mask: Tensor | None, head: FamilyHead) -> Distribution:
        """Return the distributions of parameters [B, size + m].

        Args:
            parameters: of the rows.
            mask: [B, n], 0 where a choice is forbidden; None: all are allowed. A Box has none.
            head: has the `space` of the leaf, and of a Box the `scale` of its units.
        """
        raise NotImplementedError

    def head(self, space: Space[Any], features: int) -> nn.Module:
        """Return the module that maps features [B, features] and a mask to distributions; `FamilyHead` is one."""
        return FamilyHead(self, space, features)


class FamilyHead(nn.Module):
    """Features → distributions of a family: a linear layer gives their parameters.

    Args:
        family: the distributions.
        space: of the action leaf.
        features: the width of the features.

    Raises:
        PluginError: the family asks for noise that does not exist.
    """

    def __init__(self, family: Family, space: Space[Any], features: int) -> None:
        super().__init__()
        self.family, self.space = family, space
        self.picture_lines = (family.config.name,)
        """What a picture of the network says."""
        self.scale = BoxScale(space) if isinstance(space, spaces.Box) else None
        self.noise = family.noise(space)
        if unknown := [name for name in self.noise if name not in DRAWS]:
            raise PluginError(
                f"distribution {family.config.name} asks for the noise {unknown[0]!r}; there is {', '.join(DRAWS)}"
            )
        self.shape = row_shape(self.noise)
        self.linear = Dense(features, family.size(space))
        free = family.free(space)
        self.free = None if free is None else nn.Parameter(free.float())

    def forward(self, features: Tensor, mask: Tensor | None) -> Distribution:
        """Features [B, F], mask [B, n] or None → the distributions."""
        parameters = self.linear.forward(features)
        if self.free is not None:
            parameters = torch.cat((parameters, self.free.expand(*parameters.shape[:-1], -1)), -1)
        return self.family.distribution(parameters, mask, self)

    def draw_noise(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Return noise of this shape, which ends with that of one row."""
        return draw(self.noise, shape[: len(shape) - len(self.shape)], generator)
