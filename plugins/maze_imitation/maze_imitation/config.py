"""The parameters of GAIL and AIRL."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from maze_core import AlgorithmConfig
from maze_core.models.blocks import Activation
from maze_core.plugins.config import params
from maze_core.plugins.config.counting import CountsWith
from maze_core.plugins.config.external_fields import Outside
from maze_core.plugins.config.schedules import Schedule


class AdversarialConfig(AlgorithmConfig):
    """What both algorithms have: the recordings, how the policy learns, and how the discriminator does."""

    dataset: Annotated[str, Field(min_length=1), Outside.NOTHING] = "trajectory_data"
    """Folder of recorded trajectories (written by `maze rollout --record` or `maze trajectories import`), or a folder
    that contains several."""
    n_workers: PositiveInt = 1
    """Threads that read and verify the data."""
    epoch_length: PositiveInt = 10
    """Updates per epoch."""
    n_rollout_steps: params.RolloutSteps = 256
    num_envs: params.TrainingEnvironments = 8
    lr: params.LearningRate = 1e-3
    lr_schedule: params.LearningRateSchedule = "auto"
    gamma: params.Gamma = 0.99
    gae_lambda: params.GaeLambda = 0.95
    value_loss_coef: params.ValueLossCoef = 0.5
    entropy_coef: params.EntropyCoef = 0.0
    max_grad_norm: params.MaxGradNorm = 0.5
    batch_size: params.BatchSize = 64
    n_optimization_epochs: PositiveInt = 10
    """Passes of the policy over each rollout."""
    clip_range: params.ClipRange = 0.2
    normalize_advantages: params.NormalizeAdvantages = True
    normalize_rewards: params.NormalizeRewards = True
    discriminator_lr: Annotated[PositiveFloat, CountsWith("n_discriminator_epochs")] = 1e-3
    """Learning rate of the discriminator; `lr_schedule` does not apply to it."""
    discriminator_hidden: params.Hidden = (64, 64)
    """Units of each hidden layer of the discriminator."""
    discriminator_activation: Activation = "tanh"
    """Activation of the discriminator's hidden layers."""
    discriminator_batch_size: Annotated[params.BatchSize, CountsWith("n_discriminator_epochs")] = 256
    """Steps of the policy in a minibatch of the discriminator, and on average as many of the expert."""
    n_discriminator_epochs: NonNegativeInt = 1
    """Passes of the discriminator over each rollout; 0: it stays as it was drawn."""
    absorbing_state: bool = False
    """An episode that ended goes on for ever in one state, which is the expert's the more, the more often its episodes
    end compared to the policy's. Then neither to end nor to go on pays by the sign of the rewards alone. Needs `gamma`
    below 1."""

    @model_validator(mode="after")
    def _has_a_horizon(self) -> Self:
        ends = self.gamma.ends() if isinstance(self.gamma, Schedule) else (self.gamma,)
        if self.absorbing_state and 1 in ends:
            raise ValueError("absorbing_state needs gamma below 1, or its return is infinite")
        return self


class GAILConfig(AdversarialConfig):
    """Generative adversarial imitation learning."""

    sequence_length: params.SequenceLength = None
    reward: Literal["positive", "negative", "difference"] = "positive"
    """Reward of a step that the discriminator takes for the expert's with probability D: `positive` -log(1 - D), as in
    the paper, for tasks where a long episode is a good one; `negative` log D, where a short one is; `difference` the
    sum of both, of either sign."""


class AIRLConfig(AdversarialConfig):
    """Adversarial inverse reinforcement learning."""
