"""The parameters of A2C."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PositiveInt

from maze_core import AlgorithmConfig
from maze_core.plugins.config import params
from maze_core.plugins.config.counting import CountsWith
from maze_core.plugins.config.schedules import SCHEDULABLE


class A2CConfig(AlgorithmConfig):
    """Advantage actor-critic."""

    critic_burn_in_epochs: params.CriticBurnInEpochs = 0
    epoch_length: PositiveInt = 500
    """Updates per epoch."""
    n_rollout_steps: params.RolloutSteps = 4
    sequence_length: params.SequenceLength = None
    num_envs: params.TrainingEnvironments = 8
    optimizer: Literal["adam", "rmsprop"] = "adam"
    """The optimizer: Adam, or RMSprop as in the paper."""
    beta1: Annotated[float, Field(ge=0, lt=1), CountsWith("optimizer", "adam")] = 0.0
    """Decay of Adam's running mean of the gradients; 0: none, so that Adam is RMSprop with corrected first steps."""
    beta2: Annotated[float, Field(ge=0, lt=1)] = 0.99
    """Decay of the running mean square of the gradients, of either optimizer."""
    lr: Annotated[float, Field(gt=0), SCHEDULABLE] = 4e-3
    """Learning rate of the optimizer."""
    lr_schedule: params.LearningRateSchedule = "auto"
    gamma: params.Gamma = 0.99
    gae_lambda: params.GaeLambda = 0.95
    policy_loss_coef: params.PolicyLossCoef = 1.0
    value_loss_coef: params.ValueLossCoef = 0.5
    entropy_coef: params.EntropyCoef = 0.005
    max_grad_norm: params.MaxGradNorm = 0.5
    normalize_advantages: params.NormalizeAdvantages = False
    normalize_rewards: params.NormalizeRewards = True
