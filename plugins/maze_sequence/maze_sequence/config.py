"""The parameters of the Decision Transformer."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from maze_core import AlgorithmConfig
from maze_core.plugins.config import params
from maze_core.plugins.config.counting import CountsWithout
from maze_core.plugins.config.external_fields import Outside


class DTConfig(AlgorithmConfig):
    """Decision Transformer."""

    n_epochs: NonNegativeInt = 10
    """Epochs to train; 0: until early stopping ends the run."""
    epoch_length: PositiveInt = 1000
    """Updates per epoch; an update learns from one batch."""
    dataset: Annotated[str, Field(min_length=1), Outside.NOTHING] = "trajectory_data"
    """Folder of recorded trajectories (written by `maze rollout --record` or `maze trajectories import`), or a folder
    that contains several."""
    n_workers: PositiveInt = 1
    """Threads that read and verify the data."""
    target_return: Annotated[float, Field(ge=-1e30, le=1e30)] | None = None
    """Return that is asked for where an episode begins, in rewards as the wrappers make them; none: what
    `return_expectile` says."""
    return_expectile: Annotated[Annotated[float, Field(ge=0.5, lt=1)] | None, CountsWithout("target_return")] = None
    """Learn which returns are within reach from an observation, and ask for this expectile of them: 0.9 is what good
    episodes get from there. None: ask for the return of the best recorded episode, wherever an episode begins."""
    context: Annotated[int, Field(gt=0, le=1000)] = 20
    """Steps that the transformer looks at, the current one included."""
    size: params.Width = 64
    """Width of the transformer."""
    layers: Annotated[int, Field(gt=0, le=100)] = 2
    """Blocks of attention."""
    heads: PositiveInt = 4
    """Heads of each block, among which its width is divided."""
    max_steps: Annotated[int, Field(gt=0, le=1_000_000)] = 1000
    """Steps of an episode that are told apart; later ones count as the last of them."""
    batch_size: params.BatchSize = 640
    """Steps of a batch, in stretches of up to `context`."""
    lr: params.LearningRate = 1e-3
    lr_schedule: params.LearningRateSchedule = "constant"
    weight_decay: Annotated[float, Field(ge=0)] = 1e-4
    """Weight decay of AdamW."""
    max_grad_norm: params.MaxGradNorm = 0.25

    @model_validator(mode="after")
    def _check_heads(self) -> Self:
        if self.size % self.heads:
            raise ValueError(f"the size of {self.size} cannot be divided among {self.heads} heads")
        return self
