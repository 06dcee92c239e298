"""The parameters of ES."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, JsonValue, NonNegativeInt, PositiveInt

from maze_core.config import params
from maze_core.config.run import AlgorithmConfig


class ESConfig(AlgorithmConfig):
    """Evolution strategies."""

    n_rollouts_per_update: PositiveInt = 10
    """Episodes per update at least; rounded up to whole pairs."""
    n_timesteps_per_update: NonNegativeInt = 0
    """Environment steps per update at least; more pairs are evaluated until both minima are reached."""
    max_steps: NonNegativeInt = 0
    """Steps after which a training episode is cut; 0: the environment decides."""
    optimizer: Literal["adam", "sgd"] = "adam"
    """What follows the estimate: Adam, or gradient descent with momentum."""
    step_size: Annotated[float, Field(gt=0)] = 0.01
    """Learning rate of the optimizer."""
    step_size_schedule: params.LearningRateSchedule = "constant"
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """Momentum of `sgd`."""
    l2_penalty: Annotated[float, Field(ge=0)] = 0.005
    """Weight of the penalty on half the squared norm of the parameters."""
    noise_stddev: Annotated[float, Field(gt=0)] = 0.02
    """Standard deviation of the perturbations."""
    deterministic: bool = True
    """Let members take their most likely action; false: let them sample, both of a pair with the same noise."""
    pairs_per_job: Annotated[int, Field(gt=0, le=10_000)] = 16
    """Pairs evaluated side by side in one batch: the work a worker is given at a time. Memory grows with it."""
    n_workers: Annotated[int, Field(gt=0, le=1000)] | None = None
    """Workers that evaluate the population; none: as many as the runner has. The result does not depend on it."""
    n_eval_rollouts: PositiveInt = 10
    """Episodes of one evaluation, unless `evaluation.n_episodes` is set."""
    policy_wrapper: str | dict[str, JsonValue] | None = None
    """A policy plugin around the searched policy, by name or with parameters; none: the policy acts alone."""
    shared_noise_table_size: PositiveInt = 100_000_000
    """Numbers of a shared noise table. Without effect: directions are computed from (seed, index), no table is held."""

    @property
    def evaluation_episodes(self) -> int:
        """`n_eval_rollouts`."""
        return self.n_eval_rollouts
