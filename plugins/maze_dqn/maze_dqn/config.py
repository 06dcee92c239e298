"""The parameters of DQN, Ape-X and PQN."""

from __future__ import annotations

from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, PositiveInt, model_validator

from maze_core import AlgorithmConfig
from maze_core.plugins.config import params
from maze_core.plugins.config.counting import CountsWith
from maze_core.plugins.config.schedules import SCHEDULABLE, Linear, by_default


class ExploringConfig(AlgorithmConfig):
    """How often actions are random."""

    epsilon: params.Share = by_default(Linear(from_=1.0, to=0.05, over="steps", end=10_000))
    """Share of random actions. By default it falls in a line over environment steps."""


class ReplayedConfig(ExploringConfig):
    """What is learnt from replay, and how: DQN with the parts of Rainbow."""

    epoch_length: PositiveInt = 500
    """Updates per epoch."""
    num_batches_per_iter: params.BatchesPerIteration = 1
    batch_size: params.BatchSize = 64
    lr: params.LearningRate = 5e-4
    lr_schedule: params.LearningRateSchedule = "constant"
    gamma: params.Gamma = 0.99
    n_step: params.ReturnSteps = 1
    tau: params.TargetRate = 1.0
    target_update_interval: params.TargetInterval = 250
    replay_buffer_size: params.ReplayBufferSize = 100_000
    initial_buffer_size: params.InitialBufferSize = 1_000
    max_grad_norm: params.MaxGradNorm = 10.0
    double: bool = False
    """Choose the next action of the target with the network that learns, and value it with the target network."""
    dueling: bool = False
    """Learn the value of an observation and the advantages of its actions in two streams of layers."""
    head_hidden: params.Hidden = ()
    """Units of the layers of each stream after the model's encoder."""
    noisy: bool = False
    """Explore by noise on the parameters of the layers after the encoder, whose scale is learnt. Random actions come on
    top unless `epsilon` is 0."""
    noisy_std: Annotated[float, Field(gt=0), CountsWith("noisy")] = 0.5
    """Initial scale of this noise, divided by the square root of a layer's inputs."""
    prioritized: bool = False
    """Sample steps with large errors more often."""
    priority_exponent: Annotated[float, Field(ge=0, le=1), CountsWith("prioritized")] = 0.6
    """How much the error decides (alpha); 0: not at all, 1: in proportion."""
    priority_beta: Annotated[params.Share, CountsWith("prioritized")] = by_default(Linear(from_=0.4, to=1.0))
    """Exponent of the importance weights. By default it rises to 1 at the end of the run."""
    head: Literal["expected", "quantile", "categorical"] = "expected"
    """What is learnt of the return: its mean, its quantiles (QR-DQN), or the probabilities of fixed values (C51)."""
    quantiles: Annotated[int, Field(ge=2, le=10_000), CountsWith("head", "quantile")] = 50
    """Number of quantiles."""
    atoms: Annotated[int, Field(ge=2, le=10_000), CountsWith("head", "categorical")] = 51
    """Number of fixed values of a categorical head."""
    value_min: Annotated[float, CountsWith("head", "categorical")] = -10.0
    """The lowest of these values: no smaller discounted return can be learnt."""
    value_max: Annotated[float, CountsWith("head", "categorical")] = 10.0
    """The highest of these values."""

    @model_validator(mode="after")
    def _check_values(self) -> Self:
        if self.value_min >= self.value_max:
            raise ValueError("value_min must be below value_max")
        return self


class DQNConfig(ReplayedConfig):
    """Deep Q-learning from replay."""

    n_rollout_steps: params.RolloutSteps = 4
    num_envs: params.TrainingEnvironments = 1
    sequence_length: params.ReplayedLength = 20
    burn_in: params.ReplayBurnIn = 10
    initial_sampling_policy: params.InitialSamplingPolicy = "random"
    her_goals: params.HindsightGoals = 0


class ApexConfig(ReplayedConfig):
    """Deep Q-learning from replay that actors fill while the learner learns."""

    num_actors: Annotated[int, Field(gt=0, le=1000)] = 4
    """Number of actors: worker processes with the runner `local`; with `dev` they take turns in one process."""
    envs_per_actor: PositiveInt = 1
    """Environments that an actor steps together, with one forward pass of the network."""
    n_rollout_steps: params.RolloutSteps = 16
    num_batches_per_iter: params.BatchesPerIteration = 4
    max_idle: Annotated[int, Field(ge=0, le=1000)] = 1
    """Iterations in a row that learn from old steps alone where no rollout has arrived. Then the learner waits for one:
    without a bound it would learn the same steps again and again while the environments are slow."""
    epsilon: params.Share = by_default(Linear(from_=1.0, to=0.4, over="steps", end=10_000))
    """Share of random actions of the actor that explores most. By default it falls in a line over environment steps."""
    exploration_spread: Annotated[float, Field(ge=0, le=100)] = 7.0
    """How much less the others explore: environment i of N takes random actions with the share to the power of
    1 + i / (N - 1) times this number."""
    n_step: params.ReturnSteps = 3
    double: bool = True
    """Choose the next action of the target with the network that learns, and value it with the target network."""
    dueling: bool = True
    """Learn the value of an observation and the advantages of its actions in two streams of layers."""
    prioritized: bool = True
    """Sample steps with large errors more often."""

    def epsilons(self, most: float) -> np.ndarray:
        """Return the share of random actions of every environment, [N], where that of the first is `most`.

        From Horgan et al. 2018 (arXiv 1803.00933, section 4.1).
        """
        total = self.num_actors * self.envs_per_actor
        place = np.arange(total) / max(1, total - 1)
        return np.power(most, 1 + place * self.exploration_spread)


class PQNConfig(ExploringConfig):
    """Deep Q-learning from environments side by side, without replay."""

    epoch_length: PositiveInt = 10
    """Updates per epoch."""
    n_rollout_steps: params.RolloutSteps = 32
    num_envs: params.TrainingEnvironments = 32
    n_optimization_epochs: PositiveInt = 4
    """Passes over each rollout."""
    batch_size: params.BatchSize = 128
    lr: params.LearningRate = 1e-3
    lr_schedule: params.LearningRateSchedule = "auto"
    gamma: params.Gamma = 0.99
    q_lambda: Annotated[float, Field(ge=0, le=1), SCHEDULABLE] = 0.65
    """Lambda of the returns: 0 one-step targets, 1 whole returns."""
    max_grad_norm: params.MaxGradNorm = 10.0
