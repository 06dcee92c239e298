"""What limits a run keeps, and how their multipliers move."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, NonNegativeFloat, PositiveInt, model_validator

from maze_core import PluginConfig
from maze_core.envs.info_columns import CONSTRAINT
from maze_core.models.blocks import Activation
from maze_core.plugins.config import params
from maze_core.plugins.config.base import ConfigModel


class Limit(ConfigModel):
    """A limit of the mean of a number over episodes."""

    at_most: float | None = None
    """The most that it may be."""
    at_least: float | None = None
    """The least that it may be."""

    @model_validator(mode="after")
    def _has_one_bound(self) -> Self:
        if (self.at_most is None) == (self.at_least is None):
            raise ValueError("must have either at_most or at_least")
        return self

    @property
    def sign(self) -> float:
        """1, or -1 for a number that must not be too small: its negative is the cost."""
        return 1.0 if self.at_least is None else -1.0

    @property
    def unit(self) -> float:
        """What costs are measured in: the size of the limit, 1 for a limit of 0."""
        return abs(self.at_most or self.at_least or 0.0) or 1.0

    @property
    def cost(self) -> float:
        """The most that an episode may cost, in units."""
        return self.sign * (self.at_most if self.at_least is None else self.at_least) / self.unit  # type: ignore[operator]


class ConstraintsConfig(PluginConfig):
    """Limits, by the name of a number in `info`, a KPI, or a metric of episodes; and what moves their multipliers."""

    limits: Annotated[dict[Annotated[str, Field(pattern=r"^[\w./-]+$")], Limit], Field(min_length=1)]
    """The limits, which may also be set as `constraints`."""
    kp: NonNegativeFloat = 1.0
    """Gain of the proportional part of a multiplier: of what the limit is exceeded by, in units of the limit."""
    ki: NonNegativeFloat = 0.1
    """Gain of the integral part: what it rises by in an update in which the limit is exceeded by its own size."""
    kd: NonNegativeFloat = 1.0
    """Gain of the derivative part, which acts while costs rise."""
    smoothing: Annotated[float, Field(ge=0, lt=1)] = 0.8
    """Share of the past in the smoothed costs that the proportional and the derivative part see."""
    initial: NonNegativeFloat = 0.0
    """The multipliers at the beginning. Near its final value, no run has to learn caution after recklessness."""
    every: PositiveInt = 100
    """Steps of the learner from one move of the multipliers to the next, in sac and td3; others move once an update."""
    gamma: params.Gamma = 0.99
    """Discount factor of future costs in the advantages of actor-critics; sac and td3 have that of their rewards."""
    gae_lambda: params.GaeLambda = 0.95
    """Decay of the generalised advantages of costs, in actor-critics."""
    hidden: params.Hidden = (64, 64)
    """Units of each hidden layer of the critics of costs, in actor-critics."""
    activation: Activation = "tanh"
    """Activation of these layers."""

    @property
    def info_columns(self) -> tuple[str, ...]:
        """The columns of the numbers in rollouts and replay."""
        return tuple(f"{CONSTRAINT}{name}" for name in self.limits)
