"""The parameters of FastTD3."""

from __future__ import annotations

from typing import Annotated, Self

from maze_offpolicy import NoiseName
from pydantic import Field, PositiveInt, model_validator

from maze_core.plugins.config import params
from maze_core.plugins.config.schedules import Schedule
from maze_td3.config import Noise, TD3Config


class FastTD3Config(TD3Config):
    """TD3 for many parallel environments."""

    epoch_length: PositiveInt = 200
    """Updates per epoch: one is `collect_steps` environment steps with the critics' updates that follow."""
    num_envs: params.TrainingEnvironments = 128
    utd: params.UpdatesPerStep = 0.015625
    batch_size: params.BatchSize = 8192
    lr: params.LearningRate = 3e-4
    tau: params.TargetRate = 0.1
    target_noise: Noise = 0.001
    """Standard deviation of the noise on the policy's actions in targets, in half-ranges (target policy smoothing)."""
    exploration_noise: Noise = 0.4
    """Largest standard deviation of the noise on actions while collecting, in half-ranges."""
    exploration_noise_min: Annotated[float, Field(ge=0, le=100)] = 0.001
    """Smallest one. Each environment has its own, drawn between the two for each of its episodes."""
    exploration: NoiseName = "gaussian"
    """How this noise follows from that of earlier steps: `gaussian`: not at all; `ornstein_uhlenbeck`: a walk around 0;
    `coloured`: slow waves are higher; `repeated`: it stays for some steps."""
    initial_buffer_size: params.InitialBufferSize = 1280
    critic_hidden: params.Hidden = (1024, 512, 256)
    """Units of each hidden layer of the critics."""
    atoms: Annotated[int, Field(ge=2, le=1000)] = 101
    """Returns whose probabilities each critic estimates, equally spaced between `v_min` and `v_max`."""
    v_min: float = -250.0
    """The least discounted return that critics can express."""
    v_max: float = 250.0
    """The largest discounted return that critics can express."""
    weight_decay: Annotated[float, Field(ge=0, le=100)] = 0.1
    """Share of policy and critics, times the learning rate, by which they shrink at each step (AdamW)."""

    @model_validator(mode="after")
    def _check_ranges(self) -> Self:
        if self.v_min >= self.v_max:
            raise ValueError(f"v_min must be less than v_max, and {self.v_min} is not less than {self.v_max}")
        largest = self.exploration_noise
        if not isinstance(largest, Schedule) and self.exploration_noise_min > largest:
            raise ValueError(
                f"exploration_noise_min is {self.exploration_noise_min}, above exploration_noise, {largest}"
            )
        return self
