"""The parameters of IMPALA and APPO."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, PositiveInt, model_validator

from maze_core import AlgorithmConfig
from maze_core.plugins.config import params
from maze_core.plugins.config.schedules import SCHEDULABLE


class ActorsConfig(AlgorithmConfig):
    """Actors that collect trajectories, and V-trace that corrects for their lag."""

    critic_burn_in_epochs: params.CriticBurnInEpochs = 0
    epoch_length: PositiveInt = 125
    """Updates per epoch."""
    n_rollout_steps: params.RolloutSteps = 20
    lr: params.LearningRate = 1e-3
    lr_schedule: params.LearningRateSchedule = "constant"
    gamma: params.Gamma = 0.99
    policy_loss_coef: params.PolicyLossCoef = 1.0
    value_loss_coef: params.ValueLossCoef = 0.5
    entropy_coef: params.EntropyCoef = 0.01
    max_grad_norm: params.MaxGradNorm = 0.5
    num_actors: Annotated[int, Field(gt=0, le=1000)] = 8
    """Number of actors: worker processes with the runner `local`; with `dev` they take turns in one process."""
    envs_per_actor: PositiveInt = 1
    """Environments that an actor steps in parallel, with one forward pass of the policy. Each yields one trajectory."""
    actors_batch_size: PositiveInt = 8
    """Trajectories per batch of the learner. Each batch is one update."""
    queue_out_of_sync_factor: Annotated[float, Field(ge=0, le=1000)] = 1.0
    """Size of the queue between actors and learner, in batches. A trajectory is at most
    `queue_out_of_sync_factor + num_actors * envs_per_actor / actors_batch_size` updates older than the learner."""
    vtrace_clip_rho_threshold: Annotated[float, Field(gt=0), SCHEDULABLE] | None = 1.0
    """Upper bound of the importance weights in the critic's targets; none: no clipping."""
    vtrace_clip_pg_rho_threshold: Annotated[float, Field(gt=0), SCHEDULABLE] | None = 1.0
    """Upper bound of the importance weights in the policy gradient; none: no clipping."""
    normalize_rewards: params.NormalizeRewards = False
    reward_clipping: Literal["none", "abs_one", "soft_asymmetric"] = "none"
    """How the learner transforms rewards: `abs_one` clips them to [-1, 1], `soft_asymmetric` squashes them to (-1.5,
    5)."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.actors_batch_size % self.envs_per_actor:
            raise ValueError(
                f"actors_batch_size ({self.actors_batch_size}) must be a multiple of "
                f"envs_per_actor ({self.envs_per_actor})"
            )
        if self.normalize_rewards and self.reward_clipping != "none":
            raise ValueError(
                f"normalize_rewards and reward_clipping={self.reward_clipping} both change rewards: set "
                f"normalize_rewards to false, or reward_clipping to none"
            )
        return self

    @property
    def rollouts_per_batch(self) -> int:
        """Number of rollouts, of one actor each, in a batch."""
        return self.actors_batch_size // self.envs_per_actor

    @property
    def rollouts_under_way(self) -> int:
        """Number of rollouts requested but not learned from: one for each actor, plus the size of the queue."""
        queue = int(self.queue_out_of_sync_factor * self.rollouts_per_batch)
        return max(self.num_actors + queue, self.rollouts_per_batch)

    @property
    def max_staleness(self) -> float:
        """Largest number of updates between acting and learning from a trajectory."""
        return self.queue_out_of_sync_factor + self.num_actors * self.envs_per_actor / self.actors_batch_size


class IMPALAConfig(ActorsConfig):
    """Importance weighted actor-learner architecture."""

    epoch_length: PositiveInt = 500
    """Updates per epoch."""
    n_rollout_steps: params.RolloutSteps = 5
    lr: params.LearningRate = 4e-3
    lr_schedule: params.LearningRateSchedule = "auto"
    entropy_coef: params.EntropyCoef = 0.005
    normalize_rewards: params.NormalizeRewards = True


class APPOConfig(ActorsConfig):
    """Asynchronous proximal policy optimisation."""

    n_optimization_epochs: PositiveInt = 4
    """Optimizer steps on each batch."""
    clip_range: params.ClipRange = 0.2
    """Clip range of the probability ratio of the learning to the target policy, around 1."""
    target_update_interval: PositiveInt = 4
    """Updates after which the target policy becomes the learning policy; 1: with every batch."""
    ratio_bound: Annotated[float, Field(ge=1), SCHEDULABLE] | None = 2.0
    """Upper bound of the acting policy's probability divided by the target policy's, where the ratio is taken to the
    target policy; none: no bound."""
    normalize_advantages: params.NormalizeAdvantages = True
