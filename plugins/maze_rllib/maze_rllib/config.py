"""The parameters of RLlib's algorithms: those most often set, under RLlib's names and with its defaults."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, JsonValue, PositiveInt

from maze_core.config import params
from maze_core.config.run import AlgorithmConfig

_LearningRate = Annotated[float, Field(gt=0, description="Learning rate of Adam.")]
_Entropy = Annotated[float, Field(ge=0, description="Weight of the entropy bonus.")]
_ValueLoss = Annotated[float, Field(ge=0, description="Weight of the critic's squared error.")]
_GradClip = Annotated[float, Field(gt=0)] | None
_Batch = Annotated[int, Field(gt=0, description="Steps of the environments in one training batch.")]
_EnvsPerRunner = Annotated[
    int, Field(gt=0, description="Environments that each of RLlib's runners steps side by side.")
]


class RLlibConfig(AlgorithmConfig):
    """What every algorithm of RLlib has."""

    epoch_length: PositiveInt = 1
    """RLlib's training iterations in one epoch."""
    device: Literal["cpu"] = "cpu"
    """Where the policy learns."""
    rllib: dict[str, JsonValue] = Field(default_factory=dict)
    """Any other parameter of RLlib, by the name it has there."""
    rllib_model: bool = False
    """Learn with RLlib's default network instead of Maze's. `maze eval` cannot open such a run."""
    num_envs_per_env_runner: _EnvsPerRunner = 8
    watchdog_seconds: Annotated[float, Field(gt=0)] = 120.0
    """Seconds without new steps or without learning after which the run ends."""

    own: ClassVar[frozenset[str]] = frozenset(
        {*AlgorithmConfig.model_fields, "rllib", "rllib_model", "watchdog_seconds", "dataset", "critic_hidden"}
    )
    """The fields that RLlib does not know."""

    def settings(self) -> dict[str, JsonValue]:
        """Return the configured parameters by RLlib's names; `rllib` overrides the fields."""
        fields = self.model_dump(exclude=set(self.own))
        return {_NAMES.get(name, name): value for name, value in fields.items()} | self.rllib


_NAMES = {"gae_lambda": "lambda_"}
"""Fields that are called otherwise in RLlib."""


class PPOConfig(RLlibConfig):
    """RLlib's PPO."""

    lr: _LearningRate = 5e-5
    gamma: params.Gamma = 0.99
    gae_lambda: params.GaeLambda = 1.0
    train_batch_size_per_learner: _Batch = 4000
    minibatch_size: params.BatchSize = 128
    num_epochs: PositiveInt = 30
    """Passes over each training batch."""
    clip_param: Annotated[float, Field(gt=0)] = 0.3
    """How far the probability ratio of new to old policy may move from 1 before its gradient is cut."""
    vf_clip_param: Annotated[float, Field(gt=0)] = 10.0
    """Largest squared error of the critic that has a gradient."""
    vf_loss_coeff: _ValueLoss = 1.0
    entropy_coeff: _Entropy = 0.0
    kl_coeff: Annotated[float, Field(ge=0)] = 0.2
    """First weight of the divergence from the old policy; RLlib adapts it to `kl_target`."""
    kl_target: Annotated[float, Field(gt=0)] = 0.01
    """Divergence from the old policy that is aimed at."""
    grad_clip: _GradClip = None
    """Norm that gradients are clipped to; none: no clipping."""


class IMPALAConfig(RLlibConfig):
    """RLlib's IMPALA."""

    epoch_length: PositiveInt = 10
    """RLlib's training iterations in one epoch, one batch at least each."""
    lr: _LearningRate = 5e-4
    gamma: params.Gamma = 0.99
    train_batch_size_per_learner: _Batch = 500
    rollout_fragment_length: PositiveInt = 50
    """Steps of an environment in one trajectory."""
    vf_loss_coeff: _ValueLoss = 0.5
    entropy_coeff: _Entropy = 0.01
    grad_clip: _GradClip = 40.0
    """Norm that gradients are clipped to; none: no clipping."""
    vtrace_clip_rho_threshold: Annotated[float, Field(gt=0)] = 1.0
    """Bound of the importance weights in the critic's targets."""
    vtrace_clip_pg_rho_threshold: Annotated[float, Field(gt=0)] = 1.0
    """Bound of the importance weights in the policy gradient."""


class APPOConfig(IMPALAConfig):
    """RLlib's APPO: IMPALA with PPO's clipped objective."""

    gae_lambda: params.GaeLambda = 1.0
    clip_param: Annotated[float, Field(gt=0)] = 0.4
    """How far the probability ratio of new to old policy may move from 1 before its gradient is cut."""
    use_kl_loss: bool = False
    """Add the divergence from the old policy to the loss."""


class DQNConfig(RLlibConfig):
    """RLlib's DQN: double, dueling, with n-step returns and prioritised replay."""

    epoch_length: PositiveInt = 5
    """RLlib's training iterations in one epoch; one is 1,000 steps of the environments."""
    num_envs_per_env_runner: _EnvsPerRunner = 1
    lr: _LearningRate = 5e-4
    gamma: params.Gamma = 0.99
    train_batch_size_per_learner: _Batch = 32
    n_step: params.ReturnSteps = 1
    double_q: bool = True
    """Choose the next action by the network, and value it by the target network."""
    dueling: bool = True
    """Action values as a state value plus advantages; the state value is the critic of the model."""
    target_network_update_freq: PositiveInt = 500
    """Steps of the environments between two updates of the target network."""
    num_steps_sampled_before_learning_starts: PositiveInt = 1000
    """Steps of the environments before learning begins."""
    training_intensity: Annotated[float, Field(gt=0)] | None = None
    """Rows learned from for each step of the environments; none: one batch for each round of steps."""
    grad_clip: _GradClip = 40.0
    """Norm that gradients are clipped to; none: no clipping."""


class SACConfig(RLlibConfig):
    """RLlib's SAC."""

    epoch_length: PositiveInt = 5
    """RLlib's training iterations in one epoch."""
    num_envs_per_env_runner: _EnvsPerRunner = 1
    critic_hidden: params.Hidden = (256, 256)
    """Units of the critics' layers after the copy of the policy's encoder that each of them has."""
    actor_lr: _LearningRate = 3e-5
    critic_lr: _LearningRate = 3e-4
    alpha_lr: _LearningRate = 3e-4
    gamma: params.Gamma = 0.99
    tau: params.TargetRate = 5e-3
    train_batch_size_per_learner: _Batch = 256
    n_step: params.ReturnSteps = 1
    twin_q: bool = True
    """Two critics, of which the lesser value counts."""
    initial_alpha: Annotated[float, Field(gt=0)] = 1.0
    """First weight of the entropy."""
    num_steps_sampled_before_learning_starts: PositiveInt = 1500
    """Steps of the environments before learning begins."""
    training_intensity: Annotated[float, Field(gt=0)] | None = None
    """Rows learned from for each step of the environments; none: one batch for each round of steps."""
    grad_clip: _GradClip = None
    """Norm that gradients are clipped to; none: no clipping."""


class BCConfig(RLlibConfig):
    """RLlib's behavioural cloning."""

    epoch_length: PositiveInt = 50
    """Batches in one epoch."""
    dataset: Annotated[str, Field(min_length=1)] = "trajectory_data"
    """Folder of recorded trajectories, or of several such folders: what `maze rollout --record` writes."""
    lr: _LearningRate = 1e-4
    train_batch_size_per_learner: Annotated[int, Field(gt=0, description="Recorded steps in one batch.")] = 2000
    grad_clip: _GradClip = None
    """Norm that gradients are clipped to; none: no clipping."""


class MARWILConfig(BCConfig):
    """RLlib's MARWIL: cloning that prefers what turned out better than expected."""

    gamma: params.Gamma = 0.99
    beta: Annotated[float, Field(ge=0, le=1)] = 1.0
    """How strongly better actions are preferred; 0 is behavioural cloning."""
    vf_coeff: _ValueLoss = 1.0
