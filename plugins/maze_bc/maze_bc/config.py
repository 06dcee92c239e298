"""The parameters of behavioural cloning."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from maze_core import AlgorithmConfig
from maze_core.plugins.config import params
from maze_core.plugins.config.counting import CountsWith, CountsWithout
from maze_core.plugins.config.external_fields import Outside
from maze_core.plugins.config.schedules import SCHEDULABLE


class BCConfig(AlgorithmConfig):
    """Behavioural cloning."""

    n_epochs: NonNegativeInt = 1000
    """Epochs to train; 0: until early stopping ends the run."""
    epoch_length: NonNegativeInt = 0
    """Minibatches per epoch; 0: one pass over the recorded steps."""
    device: Literal["cpu", "cuda", "auto"] = "auto"
    """Device on which the policy learns; `auto` uses a GPU if there is one."""
    dataset: Annotated[str, Field(min_length=1), Outside.NOTHING] = "trajectory_data"
    """Folder of recorded trajectories (written by `maze rollout --record`), or a folder that contains several."""
    n_workers: PositiveInt = 1
    """Threads that read and verify the data."""
    validation_percentage: Annotated[float, Field(ge=0, lt=100)] = 20.0
    """Percentage of the episodes held out for validation; 0: none."""
    eval_every_k_iterations: PositiveInt | None = 500
    """Minibatches between additional evaluations within an epoch; none: evaluate only at the end of each epoch."""
    n_eval_episodes: Annotated[NonNegativeInt, CountsWithout("evaluation.n_episodes")] = 8
    """Episodes per evaluation, unless `evaluation.n_episodes` is set; 0: the validation loss decides which policy is
    best."""
    optimizer: Literal["adam", "adamw", "sgd"] = "adam"
    """The optimizer; `sgd` has a momentum of 0.9."""
    lr: Annotated[float, Field(gt=0), SCHEDULABLE] = 1e-3
    """Learning rate of the optimizer."""
    lr_schedule: params.LearningRateSchedule = "constant"
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    """Weight decay: an L2 penalty for `adam` and `sgd`, decoupled for `adamw`."""
    batch_size: params.BatchSize = 100
    sequence_length: Annotated[Annotated[int, Field(gt=0)] | None, CountsWith("model.memory")] = None
    """Most steps of a segment, for a policy with memory (`model.memory`); each segment begins with nothing remembered.
    none: whole episodes."""
    entropy_coef: params.EntropyCoef = 0.0
    max_grad_norm: params.MaxGradNorm = 0.0

    @property
    def evaluation_episodes(self) -> int:
        """`n_eval_episodes`."""
        return self.n_eval_episodes
