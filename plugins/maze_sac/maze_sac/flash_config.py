"""The parameters of FlashSAC."""

from __future__ import annotations

from typing import Annotated

from maze_offpolicy import NoiseColor, NoiseLongest, NoiseName, NoiseSteps, NoiseTheta
from pydantic import Field, PositiveInt

from maze_core import AlgorithmConfig
from maze_core.plugins.config import params

Blocks = Annotated[int, Field(ge=1, le=100)]
"""Number of residual blocks."""


class FlashSACConfig(AlgorithmConfig):
    """Soft actor-critic with few updates of large networks, whose norms are bounded."""

    epoch_length: PositiveInt = 200
    """Updates per epoch: one is `collect_steps` environment steps with the updates that follow."""
    num_envs: params.TrainingEnvironments = 128
    collect_steps: params.CollectSteps = 1
    utd: params.UpdatesPerStep = 0.015625
    batch_size: params.BatchSize = 2048
    lr: params.LearningRate = 3e-4
    lr_schedule: params.LearningRateSchedule = "constant"
    entropy_coef: Annotated[float, Field(gt=0)] = 0.01
    """Initial weight of the entropy in the objective (alpha), which is learnt with the rate `lr`."""
    target_std: Annotated[float, Field(gt=0, le=10)] = 0.15
    """The entropy aimed at is that of a normal distribution with this standard deviation in each dimension of the
    actions, in half-ranges."""
    gamma: params.Gamma = 0.99
    n_step: params.ReturnSteps = 1
    tau: params.TargetRate = 0.01
    policy_delay: PositiveInt = 2
    """Batches from one that policy and entropy coefficient learn from to the next; the critics learn from all."""
    replay_buffer_size: params.ReplayBufferSize = 1_000_000
    initial_buffer_size: params.InitialBufferSize = 10_000
    initial_sampling_policy: params.InitialSamplingPolicy = "random"
    her_goals: params.HindsightGoals = 0
    exploration: NoiseName = "repeated"
    """How the noise in the samples follows from that of earlier steps, while collecting: `gaussian`: not at all;
    `ornstein_uhlenbeck`: a walk around 0; `coloured`: slow waves are higher; `repeated`: it stays for some steps."""
    noise_theta: NoiseTheta = 0.15
    noise_color: NoiseColor = 1.0
    noise_steps: NoiseSteps = 1_000
    noise_longest: NoiseLongest = 16
    policy_width: params.Width = 128
    """Units between the blocks of the policy; each block has four times as many inside."""
    policy_blocks: Blocks = 2
    """Residual blocks of the policy."""
    critic_width: params.Width = 256
    """Units between the blocks of each critic; each block has four times as many inside."""
    critic_blocks: Blocks = 2
    """Residual blocks of each critic."""
    n_critics: Annotated[int, Field(gt=0, le=100)] = 2
    """Number of critics; the one that expects least counts, for target and policy."""
    atoms: Annotated[int, Field(ge=2, le=1000)] = 101
    """Returns whose probabilities each critic estimates, equally spaced between the bounds."""
    return_bound: Annotated[float, Field(gt=0)] = 5.0
    """The largest size of a return that critics express. Rewards are scaled so that none seen so far is larger."""
    max_grad_norm: params.MaxGradNorm = 0.0
