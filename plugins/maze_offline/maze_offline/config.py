"""The parameters of offline algorithms."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from maze_core import AlgorithmConfig
from maze_core.models.blocks import Activation
from maze_core.plugins.config import params
from maze_core.plugins.config.counting import CountsWith
from maze_core.plugins.config.external_fields import Outside
from maze_core.plugins.config.schedules import SCHEDULABLE, Schedule

Noise = Annotated[float, Field(ge=0, le=100), SCHEDULABLE]
"""In half-ranges of each dimension: 1 is half the distance between its bounds."""


class OfflineConfig(AlgorithmConfig):
    """What every algorithm that learns from recorded trajectories alone has."""

    n_epochs: NonNegativeInt = 1000
    """Epochs to train; 0: until early stopping ends the run."""
    epoch_length: PositiveInt = 1000
    """Updates per epoch; an update learns from one batch."""
    dataset: Annotated[str, Field(min_length=1), Outside.NOTHING] = "trajectory_data"
    """Folder of recorded trajectories (written by `maze rollout --record` or `maze trajectories import`), or a folder
    that contains several."""
    n_workers: PositiveInt = 1
    """Threads that read and verify the data."""
    batch_size: params.BatchSize = 256
    lr: params.LearningRate = 3e-4
    lr_schedule: params.LearningRateSchedule = "constant"
    critic_lr: Annotated[float, Field(gt=0), SCHEDULABLE] | None = None
    """Learning rate of the critics; none: `lr`."""
    gamma: params.Gamma = 0.99
    tau: params.TargetRate = 0.005
    n_critics: Annotated[int, Field(gt=0, le=100)] = 2
    """Number of critics of states and actions; the least of their values counts."""
    critic_hidden: params.Hidden = (256, 256)
    """Units of each hidden layer of the critics."""
    critic_activation: Activation = "relu"
    """Activation of the critics' hidden layers."""
    max_grad_norm: params.MaxGradNorm = 0.0


class IQLConfig(OfflineConfig):
    """Implicit Q-learning."""

    expectile: Annotated[float, Field(gt=0, lt=1), SCHEDULABLE] = 0.7
    """Expectile of the actions' values that a state's value estimates: 0.5 is their mean, towards 1 their maximum."""
    beta: Annotated[float, Field(ge=0), SCHEDULABLE] = 3.0
    """Inverse temperature of the advantages: 0 clones the data, larger values prefer the better actions."""
    max_weight: Annotated[float, Field(gt=0), SCHEDULABLE] = 100.0
    """Largest weight of an action in the policy's loss."""
    normalize_returns: bool = False
    """Divide rewards by the range of the recorded episodes' returns, and multiply them by 1000."""


class CQLConfig(OfflineConfig):
    """Conservative Q-learning."""

    lr: params.LearningRate = 1e-4
    critic_lr: Annotated[float, Field(gt=0), SCHEDULABLE] | None = 3e-4
    """Learning rate of the critics; none: `lr`."""
    alpha: Annotated[float, Field(ge=0), SCHEDULABLE] = 5.0
    """Weight of the conservative term against the squared error; its initial value with `lagrange_gap`. 0: SAC."""
    lagrange_gap: Annotated[float, Field(gt=0), SCHEDULABLE] | None = None
    """Learn `alpha` so that actions of the policy are valued this much above recorded ones at most (tau of the paper).
    none: `alpha` is constant."""
    sampled_actions: Annotated[int, Field(gt=0, le=1000)] = 10
    """Actions of each kind that are sampled to estimate the conservative term: random ones, and the policy's for the
    observation and for the next one."""
    entropy_coef: Annotated[float, Field(gt=0)] = 1.0
    """Initial weight of the entropy in the policy's objective; it is learnt."""
    target_entropy_multiplier: Annotated[float, SCHEDULABLE] = 1.0
    """Factor of the target entropy, which is -1 per dimension of the actions."""

    @model_validator(mode="after")
    def _check_alpha(self) -> Self:
        if self.lagrange_gap is not None and isinstance(self.alpha, Schedule):
            raise ValueError("lagrange_gap learns alpha, which takes no schedule then")
        return self


class TD3BCConfig(OfflineConfig):
    """TD3 with behavioural cloning."""

    alpha: Annotated[float, Field(ge=0), SCHEDULABLE] = 2.5
    """Weight of the critic against cloning, in units of the mean absolute value: 0 clones the data."""
    policy_delay: PositiveInt = 2
    """Updates of the critics for each one of the policy and of all targets."""
    target_noise: Noise = 0.2
    """Standard deviation of the noise on the target policy's actions, in half-ranges (target policy smoothing)."""
    target_noise_clip: Annotated[Noise, CountsWith("target_noise")] = 0.5
    """Largest noise on the target policy's actions, in half-ranges."""
