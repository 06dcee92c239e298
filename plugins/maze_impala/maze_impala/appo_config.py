"""The parameters of APPO."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, PositiveInt

from maze_core.config import params
from maze_impala.actors_config import ActorsConfig


class APPOConfig(ActorsConfig):
    """Asynchronous proximal policy optimisation."""

    n_optimization_epochs: PositiveInt = 4
    """Optimizer steps on each batch."""
    clip_range: Annotated[float, Field(gt=0)] = 0.2
    """Clip range of the probability ratio of the learning to the target policy, around 1."""
    target_update_interval: PositiveInt = 4
    """Updates after which the target policy becomes the learning policy; 1: with every batch."""
    ratio_bound: Annotated[float, Field(ge=1)] | None = 2.0
    """Upper bound of the acting policy's probability divided by the target policy's, where the ratio is taken to the
    target policy; none: no bound."""
    normalize_advantages: params.NormalizeAdvantages = True
