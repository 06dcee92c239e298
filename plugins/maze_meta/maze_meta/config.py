"""The parameters of MAML."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, PositiveFloat, PositiveInt, model_validator

from maze_core.plugins.config import params
from maze_core.plugins.config.external_fields import Outside
from maze_core.plugins.config.run import AlgorithmConfig


class Range(BaseModel):
    """Numbers drawn evenly between two bounds: one number, or a list of them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    low: float | list[float]
    """The smallest value, or that of each element."""
    high: float | list[float]
    """The largest."""

    @model_validator(mode="after")
    def _check_bounds(self) -> Self:
        lows, highs = ([each] if isinstance(each, float) else each for each in (self.low, self.high))
        if isinstance(self.low, float) != isinstance(self.high, float) or len(lows) != len(highs):
            raise ValueError("low and high must be two numbers, or two lists of the same length")
        if any(low > high for low, high in zip(lows, highs, strict=True)):
            raise ValueError("low must not be above high")
        return self


Values = Annotated[list[JsonValue], Field(min_length=1)] | Range
"""What a task draws one argument from: a list of values, or a range."""


class MAMLConfig(AlgorithmConfig):
    """Model-agnostic meta-learning."""

    epoch_length: PositiveInt = 10
    """Updates per epoch."""
    tasks: Annotated[dict[str, Values] | None, Outside.ARGUMENTS] = None
    """What tasks differ in: by argument of the environment (`env.kwargs`), values as a list or a range, such as
    `{"goal": {"low": [-0.5, -0.5], "high": [0.5, 0.5]}}`. `{}`: all tasks are the environment as it is. none: the
    environment's own, which has `sample_task` and `set_task`."""
    tasks_per_update: PositiveInt = 20
    """Tasks drawn for each update."""
    rollouts_per_task: PositiveInt = 20
    """Environments of a task; each gives a rollout with the policy before its step, and one after it."""
    n_rollout_steps: params.RolloutSteps = 100
    second_order: bool = True
    """Differentiate through the inner step; false: first-order MAML, which leaves its derivative out."""
    inner_lr: PositiveFloat = 0.1
    """Length of the inner step, in gradients of the policy's loss."""
    lr: params.LearningRate = 1e-3
    """Learning rate of Adam, which moves the initial parameters."""
    lr_schedule: params.LearningRateSchedule = "constant"
    n_optimization_epochs: PositiveInt = 5
    """Steps of the initial parameters on the rollouts of an update."""
    clip_range: Annotated[float, Field(gt=0)] = 0.3
    """Clip range of the probability ratio of the adapted policies, around 1."""
    gamma: params.Gamma = 0.99
    gae_lambda: params.GaeLambda = 1.0
    max_grad_norm: params.MaxGradNorm = 0.5
    normalize_advantages: params.NormalizeAdvantages = True
