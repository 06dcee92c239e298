"""The parameters of PPO-Lagrangian."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from maze_core import AlgorithmConfig
from maze_core.models.blocks import Activation
from maze_core.plugins.config import params
from maze_core.plugins.config.schedules import SCHEDULABLE


class PPOLagrangianConfig(AlgorithmConfig):
    """PPO under a limit of cost."""

    epoch_length: PositiveInt = 10
    """Updates per epoch."""
    cost_limit: Annotated[float, Field(ge=0), SCHEDULABLE] = 25.0
    """Most that an episode may cost in the mean: the sum of `cost` in the `info` of its steps."""
    multiplier_init: NonNegativeFloat = 0.0
    """Multiplier of costs at the beginning of a run."""
    multiplier_lr: PositiveFloat = 0.05
    """Learning rate of the multiplier, which Adam moves once an update: about its change in each."""
    cost_gamma: params.Gamma = 0.99
    cost_gae_lambda: params.GaeLambda = 0.95
    critic_hidden: params.Hidden = (64, 64)
    """Units of each hidden layer of the critic of costs."""
    critic_activation: Activation = "tanh"
    """Activation of its hidden layers."""
    n_rollout_steps: params.RolloutSteps = 256
    num_envs: params.TrainingEnvironments = 8
    lr: params.LearningRate = 1e-3
    lr_schedule: params.LearningRateSchedule = "auto"
    gamma: params.Gamma = 0.99
    gae_lambda: params.GaeLambda = 0.95
    value_loss_coef: params.ValueLossCoef = 0.5
    """Weight of the squared errors of both critics."""
    entropy_coef: params.EntropyCoef = 0.0
    max_grad_norm: params.MaxGradNorm = 0.5
    batch_size: params.BatchSize = 64
    n_optimization_epochs: Annotated[int, Field(gt=0)] = 10
    """Passes over each rollout."""
    clip_range: params.ClipRange = 0.2
    target_kl: Annotated[float, Field(gt=0), SCHEDULABLE] | None = None
    """KL divergence from the old policy above which the passes over a rollout end early; none: never."""
    normalize_advantages: params.NormalizeAdvantages = True
    normalize_rewards: params.NormalizeRewards = False
