"""The parameters of A2C."""

from __future__ import annotations

from maze_core.config import params
from maze_core.config.run import AlgorithmConfig


class A2CConfig(AlgorithmConfig):
    """Advantage actor-critic."""

    critic_burn_in_epochs: params.CriticBurnInEpochs = 0
    n_rollout_steps: params.RolloutSteps = 100
    lr: params.LearningRate = 5e-4
    lr_schedule: params.LearningRateSchedule = "constant"
    gamma: params.Gamma = 0.98
    gae_lambda: params.GaeLambda = 1.0
    policy_loss_coef: params.PolicyLossCoef = 1.0
    value_loss_coef: params.ValueLossCoef = 0.5
    entropy_coef: params.EntropyCoef = 0.00025
    max_grad_norm: params.MaxGradNorm = 0.0
    normalize_advantages: params.NormalizeAdvantages = False
