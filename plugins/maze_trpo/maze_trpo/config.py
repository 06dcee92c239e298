"""The parameters of TRPO and of the plain policy gradient."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, PositiveFloat, PositiveInt

from maze_core import AlgorithmConfig
from maze_core.plugins.config import params
from maze_core.plugins.config.schedules import SCHEDULABLE


class TRPOConfig(AlgorithmConfig):
    """Trust region policy optimisation."""

    epoch_length: PositiveInt = 10
    """Updates per epoch."""
    n_rollout_steps: params.RolloutSteps = 256
    sequence_length: params.SequenceLength = None
    num_envs: params.TrainingEnvironments = 8
    max_kl: Annotated[PositiveFloat, SCHEDULABLE] = 0.01
    """Largest KL divergence of the policy after a step from the one before it, in nats, mean over the rows."""
    damping: Annotated[float, Field(ge=0), SCHEDULABLE] = 0.1
    """What is added to the diagonal of the Fisher matrix: more makes steps shorter and more like the plain gradient."""
    cg_iterations: PositiveInt = 10
    """Iterations of the conjugate gradient method, each with one product of the Fisher matrix and a vector."""
    search_steps: PositiveInt = 10
    """Lengths that the line search tries before it gives a step up."""
    backtrack: Annotated[float, Field(gt=0, lt=1)] = 0.8
    """Factor from one length of the line search to the next."""
    lr: params.LearningRate = 1e-3
    lr_schedule: params.LearningRateSchedule = "constant"
    batch_size: params.BatchSize = 64
    n_critic_epochs: PositiveInt = 10
    """Passes over each rollout in which the critic learns."""
    gamma: params.Gamma = 0.99
    gae_lambda: params.GaeLambda = 0.95
    max_grad_norm: params.MaxGradNorm = 0.5
    normalize_advantages: params.NormalizeAdvantages = True
    normalize_rewards: params.NormalizeRewards = False


class PolicyGradientConfig(AlgorithmConfig):
    """The plain policy gradient: REINFORCE, by default with a baseline."""

    epoch_length: PositiveInt = 25
    """Updates per epoch."""
    n_rollout_steps: params.RolloutSteps = 128
    sequence_length: params.SequenceLength = None
    num_envs: params.TrainingEnvironments = 8
    lr: params.LearningRate = 4e-3
    lr_schedule: params.LearningRateSchedule = "auto"
    gamma: params.Gamma = 0.99
    value_loss_coef: params.ValueLossCoef = 0.5
    entropy_coef: params.EntropyCoef = 0.0
    max_grad_norm: params.MaxGradNorm = 0.5
    normalize_advantages: params.NormalizeAdvantages = True
    normalize_rewards: params.NormalizeRewards = True
