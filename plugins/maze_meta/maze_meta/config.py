"""The parameters of MAML."""

from __future__ import annotations

from typing import Annotated

from maze_onpolicy import TaskValues
from pydantic import Field, PositiveInt

from maze_core import AlgorithmConfig
from maze_core.plugins.config import params
from maze_core.plugins.config.schedules import SCHEDULABLE


class MAMLConfig(AlgorithmConfig):
    """Model-agnostic meta-learning."""

    epoch_length: PositiveInt = 10
    """Updates per epoch."""
    tasks: TaskValues = None
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
    inner_lr: Annotated[float, Field(gt=0), SCHEDULABLE] = 0.1
    """Length of the inner step, in gradients of the policy's loss."""
    lr: params.LearningRate = 1e-3
    """Learning rate of Adam, which moves the initial parameters."""
    lr_schedule: params.LearningRateSchedule = "constant"
    n_optimization_epochs: PositiveInt = 5
    """Steps of the initial parameters on the rollouts of an update."""
    clip_range: params.ClipRange = 0.3
    """Clip range of the probability ratio of the adapted policies, around 1."""
    gamma: params.Gamma = 0.99
    gae_lambda: params.GaeLambda = 1.0
    max_grad_norm: params.MaxGradNorm = 0.5
    normalize_advantages: params.NormalizeAdvantages = True
