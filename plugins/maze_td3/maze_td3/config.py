"""The parameters of TD3 and DDPG."""

from __future__ import annotations

from typing import Annotated

from maze_offpolicy import NoiseColor, NoiseLongest, NoiseName, NoiseSteps, NoiseTheta, OwnClass
from pydantic import Field, PositiveInt

from maze_core import AlgorithmConfig
from maze_core.models.blocks import Activation
from maze_core.plugins.config import params
from maze_core.plugins.config.counting import CountsWith
from maze_core.plugins.config.schedules import SCHEDULABLE

Noise = Annotated[float, Field(ge=0, le=100), SCHEDULABLE]
"""In half-ranges of each dimension: 1 is half the distance between its bounds."""


class TD3Config(AlgorithmConfig):
    """Twin delayed deep deterministic policy gradient."""

    epoch_length: PositiveInt = 1000
    """Updates per epoch: one is `collect_steps` environment steps with the critics' updates that follow."""
    num_envs: params.TrainingEnvironments = 1
    collect_steps: params.CollectSteps = 1
    utd: params.UpdatesPerStep = 1.0
    batch_size: params.BatchSize = 256
    lr: params.LearningRate = 1e-3
    lr_schedule: params.LearningRateSchedule = "constant"
    critic_lr: Annotated[float, Field(gt=0), SCHEDULABLE] | None = None
    """Learning rate of the critics; none: `lr`."""
    gamma: params.Gamma = 0.99
    n_step: params.ReturnSteps = 1
    tau: params.TargetRate = 0.005
    n_critics: Annotated[int, Field(gt=0, le=100)] = 2
    """Number of critics; the target takes the least of their values."""
    policy_delay: PositiveInt = 2
    """Updates of the critics for each one of the policy and of all targets."""
    target_noise: Noise = 0.2
    """Standard deviation of the noise on the target policy's actions, in half-ranges (target policy smoothing)."""
    target_noise_clip: Annotated[Noise, CountsWith("target_noise")] = 0.5
    """Largest noise on the target policy's actions, in half-ranges."""
    exploration_noise: Noise = 0.1
    """Standard deviation of the noise on actions while collecting, in half-ranges."""
    exploration: NoiseName | OwnClass = "gaussian"
    """How this noise follows from that of earlier steps: `gaussian`: not at all; `ornstein_uhlenbeck`: a walk around 0;
    `coloured`: slow waves are higher; `repeated`: it stays for some steps. Or a class of your own, as module:Class."""
    noise_theta: NoiseTheta = 0.15
    noise_color: NoiseColor = 1.0
    noise_steps: NoiseSteps = 1_000
    noise_longest: NoiseLongest = 16
    replay_buffer_size: params.ReplayBufferSize = 1_000_000
    initial_buffer_size: params.InitialBufferSize = 10_000
    initial_sampling_policy: params.InitialSamplingPolicy = "random"
    her_goals: params.HindsightGoals = 0
    critic_hidden: params.Hidden = (256, 256)
    """Units of each hidden layer of the critics."""
    critic_activation: Activation = "relu"
    """Activation of the critics' hidden layers."""
    max_grad_norm: params.MaxGradNorm = 0.0


class DDPGConfig(TD3Config):
    """Deep deterministic policy gradient: TD3 without its three additions."""

    n_critics: Annotated[int, Field(gt=0, le=100)] = 1
    """Number of critics; the target takes the least of their values."""
    policy_delay: PositiveInt = 1
    """Updates of the critics for each one of the policy and of all targets."""
    target_noise: Noise = 0.0
    """Standard deviation of the noise on the target policy's actions, in half-ranges (target policy smoothing)."""
