"""The parameters of SAC and SACfD."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from maze_offpolicy import NoiseColor, NoiseLongest, NoiseName, NoiseSteps, NoiseTheta, Norm, steps_of_each
from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from maze_core import AlgorithmConfig
from maze_core.models.blocks import Activation
from maze_core.plugins.config import params
from maze_core.plugins.config.counting import CountsWith, CountsWithout
from maze_core.plugins.config.external_fields import Outside
from maze_core.plugins.config.schedules import SCHEDULABLE, Schedule


class SACConfig(AlgorithmConfig):
    """Soft actor-critic."""

    epoch_length: PositiveInt = 100
    """Updates per epoch."""
    n_rollout_steps: Annotated[params.RolloutSteps, CountsWithout("collect_steps")] = 1
    num_envs: params.TrainingEnvironments = 1
    rollouts_per_iteration: Annotated[params.RolloutsPerIteration, CountsWithout("collect_steps")] = 1
    num_batches_per_iter: Annotated[params.BatchesPerIteration, CountsWithout("utd")] = 1
    collect_steps: params.CollectSteps | None = None
    """Environment steps, summed over all environments, before the next updates; rounded up to whole steps of all
    environments. None: `n_rollout_steps` and `rollouts_per_iteration` decide."""
    utd: params.UpdatesPerStep | None = None
    """Updates for each environment step, all environments counted (update-to-data ratio). Below 1 some steps have none;
    fractions are carried over. None: `num_batches_per_iter` decides."""
    batch_size: params.BatchSize = 100
    early_batch_size: params.BatchSize | None = None
    """Rows of one minibatch in the first `early_updates`: fewer take less time, and teach as much at first. None: as
    later on."""
    early_updates: Annotated[PositiveInt, CountsWith("early_batch_size")] = 15_000
    """Updates that have `early_batch_size`."""
    sequence_length: params.ReplayedLength = 20
    burn_in: params.ReplayBurnIn = 10
    critic_memory: Annotated[Literal["own", "shared"], CountsWith("model.memory")] = "own"
    """Memory of the critics, for a policy with memory: `own`: each critic has one; `shared`: all critics share one."""
    split_rollouts_into_transitions: params.SplitRollouts = True
    lr: params.LearningRate = 1e-3
    lr_schedule: params.LearningRateSchedule = "constant"
    entropy_coef_lr: Annotated[float, Field(gt=0), SCHEDULABLE, CountsWith("entropy_tuning")] = 7e-4
    """Learning rate of the entropy coefficient."""
    entropy_coef: Annotated[float, Field(ge=0), SCHEDULABLE] = 0.2
    """Weight of the entropy in the objective (alpha); its initial value if `entropy_tuning` is on."""
    entropy_tuning: bool = True
    """Learn the entropy coefficient so that the policy's entropy stays near a target."""
    target_entropy_multiplier: Annotated[float, SCHEDULABLE, CountsWith("entropy_tuning")] = 1.0
    """Factor of the target entropy, which is -1 per dimension of Box actions plus 0.98 log n per discrete choice among
    n."""
    gamma: params.Gamma = 0.99
    n_step: params.ReturnSteps = 1
    tau: params.TargetRate = 0.005
    target_update_interval: params.TargetInterval = 1
    replay_buffer_size: params.ReplayBufferSize = 1_000_000
    initial_buffer_size: params.InitialBufferSize = 10_000
    initial_sampling_policy: Annotated[params.InitialSamplingPolicy, CountsWithout("initial_demonstrations")] = "random"
    her_goals: params.HindsightGoals = 0
    exploration: NoiseName = "gaussian"
    """How the noise in the samples of Box actions follows from that of earlier steps, while collecting: `gaussian`: not
    at all; `ornstein_uhlenbeck`: a walk around 0; `coloured`: slow waves are higher; `repeated`: it stays for some
    steps."""
    noise_theta: NoiseTheta = 0.15
    noise_color: NoiseColor = 1.0
    noise_steps: NoiseSteps = 1_000
    noise_longest: NoiseLongest = 16
    initial_demonstrations: Annotated[Path | None, Outside.NOTHING] = None
    """Folder of recorded trajectories that fill the buffer first, instead of `initial_sampling_policy`."""
    critic_hidden: params.Hidden = (256, 256)
    """Units of each hidden layer of the critics."""
    critic_activation: Activation = "relu"
    """Activation of the critics' hidden layers."""
    critic_norm: Norm = "none"
    """Normalisation in the critics: `layer`, or `batch` renormalisation, which replaces the targets (CrossQ)."""
    n_critics: Annotated[int, Field(gt=0, le=100)] = 2
    """Number of critics."""
    target_subset: PositiveInt | None = None
    """Critics drawn for each batch, of which the target takes the least; the policy climbs the mean of all (REDQ).
    None: the least of all, for target and policy."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of the critics' hidden units that are dropped in every loss (DroQ)."""
    quantiles: Annotated[int, Field(gt=0, le=1000)] = 1
    """Quantiles of the return that each critic estimates; 1: its expectation. More need Box actions (TQC)."""
    drop_top: NonNegativeInt = 0
    """Quantiles per critic, the largest of all, that the target leaves out (TQC)."""
    policy_delay: PositiveInt = 1
    """Batches from one that policy and entropy coefficient learn from to the next; the critics learn from all."""
    beta1: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """Decay of the mean gradient in Adam, for policy and critics."""
    max_grad_norm: params.MaxGradNorm = 0.0

    @property
    def rollouts(self) -> tuple[int, int]:
        """The number of rollouts before the next updates, and the steps of each environment in one."""
        if self.collect_steps is None:
            return self.rollouts_per_iteration, self.n_rollout_steps
        return 1, steps_of_each(self.collect_steps, self.num_envs)

    @model_validator(mode="after")
    def _check_entropy(self) -> Self:
        if self.entropy_tuning and self.entropy_coef == 0:
            raise ValueError("entropy_tuning needs an entropy_coef above 0 to start from")
        if self.entropy_tuning and isinstance(self.entropy_coef, Schedule):
            raise ValueError("entropy_tuning learns entropy_coef: a schedule of it needs entropy_tuning=false")
        return self

    @model_validator(mode="after")
    def _check_critics(self) -> Self:
        if self.target_subset is not None and self.target_subset > self.n_critics:
            raise ValueError(f"target_subset draws {self.target_subset} critics, but n_critics is {self.n_critics}")
        if self.target_subset is not None and self.quantiles > 1:
            raise ValueError("target_subset is for critics of expectations: with quantiles set drop_top instead")
        if self.drop_top >= self.quantiles and self.drop_top:
            raise ValueError(
                f"drop_top leaves out {self.drop_top} quantiles per critic, but quantiles is {self.quantiles}"
            )
        return self


class SACfDConfig(SACConfig):
    """Soft actor-critic from demonstrations."""

    initial_demonstrations: Annotated[Path, Outside.NOTHING]
    """Folder of recorded trajectories that fill the buffer before learning begins."""
