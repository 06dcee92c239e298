"""The parameters of ES."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, JsonValue, NonNegativeInt, PositiveInt

from maze_core import AlgorithmConfig
from maze_core.plugins.config.counting import CountsWith, CountsWithout
from maze_core.plugins.config.external_fields import Outside
from maze_core.plugins.config.schedules import SCHEDULABLE


class ESConfig(AlgorithmConfig):
    """Evolution strategies."""

    n_rollouts_per_update: PositiveInt = 10
    """Minimum number of episodes per update, rounded up to whole pairs."""
    n_timesteps_per_update: NonNegativeInt = 0
    """Minimum number of environment steps per update. Pairs are evaluated until both minima are reached."""
    max_steps: NonNegativeInt = 0
    """Steps after which a training episode is cut; 0: only the environment ends episodes."""
    optimizer: Literal["adam", "sgd"] = "adam"
    """Optimizer that follows the estimated gradient: Adam, or gradient descent with momentum."""
    step_size: Annotated[float, Field(gt=0), SCHEDULABLE] = 0.01
    """Learning rate of the optimizer."""
    momentum: Annotated[float, Field(ge=0, lt=1), CountsWith("optimizer", "sgd")] = 0.9
    """Momentum of `sgd`."""
    l2_penalty: Annotated[float, Field(ge=0), SCHEDULABLE] = 0.005
    """Weight of the penalty on half the squared norm of the parameters."""
    noise_stddev: Annotated[float, Field(gt=0)] = 0.02
    """Standard deviation of the perturbations."""
    deterministic: bool = True
    """Members take their most likely actions; false: they sample, with the same noise for both members of a pair."""
    pairs_per_job: Annotated[int, Field(gt=0, le=10_000)] = 16
    """Pairs that a worker evaluates in one batch. Memory grows with it."""
    n_workers: Annotated[int, Field(gt=0, le=1000)] | None = None
    """Workers that evaluate the population; none: all workers of the runner. The result does not depend on it."""
    n_eval_rollouts: Annotated[PositiveInt, CountsWithout("evaluation.n_episodes")] = 10
    """Episodes per evaluation, unless `evaluation.n_episodes` is set."""
    policy_wrapper: Annotated[str | dict[str, JsonValue] | None, Outside.PLUGIN] = None
    """Policy plugin that wraps the trained policy: its name, or its name and parameters; none: no wrapper."""

    @property
    def evaluation_episodes(self) -> int:
        """`n_eval_rollouts`."""
        return self.n_eval_rollouts
