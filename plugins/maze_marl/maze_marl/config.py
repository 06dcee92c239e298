"""The parameters of VDN and QMIX."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, PositiveInt

from maze_core import AlgorithmConfig
from maze_core.plugins.config import params
from maze_core.plugins.config.schedules import SCHEDULABLE, Linear, by_default


class VDNConfig(AlgorithmConfig):
    """Value decomposition: the value of what a team does is the sum of a value for each agent."""

    epoch_length: PositiveInt = 500
    """Updates per epoch."""
    n_rollout_steps: params.RolloutSteps = 4
    num_envs: params.TrainingEnvironments = 4
    num_batches_per_iter: params.BatchesPerIteration = 1
    batch_size: params.BatchSize = 192
    lr: params.LearningRate = 5e-4
    lr_schedule: params.LearningRateSchedule = "constant"
    gamma: params.Gamma = 0.99
    reward_scale: Annotated[float, Field(gt=0), SCHEDULABLE] = 1.0
    """Factor of the rewards that are learnt from."""
    tau: params.TargetRate = 1.0
    target_update_interval: params.TargetInterval = 200
    double: bool = True
    """Choose the next actions of the target with the network that learns, and value them with the target network."""
    epsilon: params.Share = by_default(Linear(from_=1.0, to=0.05, over="steps", end=50_000))
    """Share of random actions. By default it falls in a line over steps of all agents."""
    replay_buffer_size: params.ReplayBufferSize = 200_000
    initial_buffer_size: params.InitialBufferSize = 1_000
    initial_sampling_policy: params.InitialSamplingPolicy = "random"
    max_grad_norm: params.MaxGradNorm = 10.0


class QMIXConfig(VDNConfig):
    """Value decomposition by a network that sees the state: the team's value rises with that of each agent."""

    mixing_units: params.Width = 32
    """Units of the hidden layer that mixes the agents' values."""
    hyper_hidden: params.Hidden = (64,)
    """Units of the hidden layers of the networks that compute the mixer's weights from the state."""
