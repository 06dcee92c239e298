"""The parameters of AlphaZero."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from maze_core import AlgorithmConfig
from maze_core.plugins.config import params
from maze_core.plugins.config.counting import CountsWith
from maze_core.plugins.config.schedules import SCHEDULABLE


class AlphaZeroConfig(AlgorithmConfig):
    """Tree search with a network that learns from it."""

    epoch_length: PositiveInt = 10
    """Updates per epoch."""
    n_simulations: PositiveInt = 50
    """Positions that the search adds to its tree before each action."""
    eval_simulations: PositiveInt | None = None
    """Those of evaluations, and of a trained policy that acts; none: as many as in training."""
    exploration: PositiveFloat = 1.25
    """Weight of the network's policy in the search (c of PUCT): more looks at more actions."""
    noise_alpha: Annotated[PositiveFloat, SCHEDULABLE, CountsWith("noise_share")] = 1.0
    """Concentration of the Dirichlet noise on the policy at the root, in training: about 10 divided by the number of
    actions."""
    noise_share: Annotated[float, Field(ge=0, lt=1), SCHEDULABLE] = 0.25
    """Share of this noise in the policy at the root."""
    temperature: Annotated[PositiveFloat, SCHEDULABLE] = 1.0
    """Actions of the first moves are drawn by visits to this power's inverse, in training."""
    sampled_moves: NonNegativeInt = 30
    """Moves of an episode, of all agents together, whose actions are drawn; later the most visited one is taken."""
    num_envs: params.TrainingEnvironments = 32
    n_rollout_steps: params.RolloutSteps = 8
    num_batches_per_iter: params.BatchesPerIteration = 8
    batch_size: params.BatchSize = 256
    replay_buffer_size: PositiveInt = 50_000
    """Newest positions of finished episodes that are learnt from."""
    initial_buffer_size: PositiveInt = 1_000
    """Positions of finished episodes before learning begins."""
    lr: params.LearningRate = 1e-3
    lr_schedule: params.LearningRateSchedule = "constant"
    gamma: Annotated[float, Field(ge=0, le=1)] = 1.0
    """Discount factor of future rewards, per environment step; of the search, too."""
    value_loss_coef: params.ValueLossCoef = 1.0
    weight_decay: Annotated[NonNegativeFloat, SCHEDULABLE] = 1e-4
    """Weight of the sum of all squared parameters in the loss (L2)."""
    max_grad_norm: params.MaxGradNorm = 0.0
