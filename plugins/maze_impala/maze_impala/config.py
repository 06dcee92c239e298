"""The parameters of IMPALA."""

from __future__ import annotations

from pydantic import PositiveInt

from maze_core.config import params
from maze_impala.actors_config import ActorsConfig


class IMPALAConfig(ActorsConfig):
    """Importance weighted actor-learner architecture."""

    epoch_length: PositiveInt = 500
    """Updates per epoch."""
    n_rollout_steps: params.RolloutSteps = 5
    lr: params.LearningRate = 4e-3
    lr_schedule: params.LearningRateSchedule = "auto"
    entropy_coef: params.EntropyCoef = 0.005
    normalize_rewards: params.NormalizeRewards = True
