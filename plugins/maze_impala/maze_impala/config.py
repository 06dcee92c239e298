"""The parameters of IMPALA."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, PositiveInt, model_validator

from maze_core.config import params
from maze_core.config.run import AlgorithmConfig


class IMPALAConfig(AlgorithmConfig):
    """Importance weighted actor-learner architecture."""

    critic_burn_in_epochs: params.CriticBurnInEpochs = 0
    epoch_length: PositiveInt = 125
    """Updates in one epoch."""
    n_rollout_steps: params.RolloutSteps = 20
    lr: params.LearningRate = 1e-3
    lr_schedule: params.LearningRateSchedule = "constant"
    gamma: params.Gamma = 0.99
    policy_loss_coef: params.PolicyLossCoef = 1.0
    value_loss_coef: params.ValueLossCoef = 0.5
    entropy_coef: params.EntropyCoef = 0.01
    max_grad_norm: params.MaxGradNorm = 0.5
    num_actors: Annotated[int, Field(gt=0, le=1000)] = 8
    """Actors: worker processes on the runner `local`, taking turns in one process on `dev`."""
    envs_per_actor: PositiveInt = 1
    """Environments an actor steps side by side, in one forward pass of the policy; each gives one trajectory."""
    actors_batch_size: PositiveInt = 8
    """Trajectories in one batch of the learner, one update each."""
    queue_out_of_sync_factor: Annotated[float, Field(ge=0, le=1000)] = 1.0
    """Size of the queue between actors and learner, in batches. With it a trajectory is at most
    `queue_out_of_sync_factor + num_actors * envs_per_actor / actors_batch_size` updates behind the learner."""
    vtrace_clip_rho_threshold: Annotated[float, Field(gt=0)] | None = 1.0
    """Bound of the importance weights in the critic's targets; none: no clipping."""
    vtrace_clip_pg_rho_threshold: Annotated[float, Field(gt=0)] | None = 1.0
    """Bound of the importance weights in the policy gradient; none: no clipping."""
    reward_clipping: Literal["none", "abs_one", "soft_asymmetric"] = "none"
    """Rewards as the learner sees them: `abs_one` cuts at -1 and 1, `soft_asymmetric` squeezes them into -1.5 to 5."""

    @model_validator(mode="after")
    def _whole_batches(self) -> Self:
        if self.actors_batch_size % self.envs_per_actor:
            raise ValueError(
                f"actors_batch_size ({self.actors_batch_size}) must be a multiple of "
                f"envs_per_actor ({self.envs_per_actor})"
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
