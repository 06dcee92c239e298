"""The parameters of PPO."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, PositiveInt

from maze_core import AlgorithmConfig
from maze_core.plugins.config import params
from maze_core.plugins.config.schedules import SCHEDULABLE


class PPOConfig(AlgorithmConfig):
    """Proximal policy optimisation."""

    critic_burn_in_epochs: params.CriticBurnInEpochs = 0
    epoch_length: PositiveInt = 10
    """Updates per epoch."""
    n_rollout_steps: params.RolloutSteps = 256
    sequence_length: params.SequenceLength = None
    num_envs: params.TrainingEnvironments = 8
    lr: params.LearningRate = 1e-3
    lr_schedule: params.LearningRateSchedule = "auto"
    gamma: params.Gamma = 0.99
    gae_lambda: params.GaeLambda = 0.95
    policy_loss_coef: params.PolicyLossCoef = 1.0
    value_loss_coef: params.ValueLossCoef = 0.5
    entropy_coef: params.EntropyCoef = 0.0
    max_grad_norm: params.MaxGradNorm = 0.5
    batch_size: params.BatchSize = 64
    n_optimization_epochs: Annotated[int, Field(gt=0)] = 10
    """Passes over each rollout."""
    clip_range: params.ClipRange = 0.2
    value_clip_range: Annotated[float, Field(gt=0), SCHEDULABLE] | None = None
    """Clip range of the critic's prediction around its old value; none: no clipping."""
    target_kl: Annotated[float, Field(gt=0), SCHEDULABLE] | None = None
    """KL divergence from the old policy above which the passes over a rollout end early; none: never."""
    normalize_advantages: params.NormalizeAdvantages = True
    normalize_rewards: params.NormalizeRewards = False
