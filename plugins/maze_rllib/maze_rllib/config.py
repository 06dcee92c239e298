"""The parameters of RLlib's algorithms: those most often set, under RLlib's names and with its defaults."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, JsonValue, PositiveInt

from maze_core.plugins.config import params
from maze_core.plugins.config.external_fields import Outside
from maze_core.plugins.config.run import AlgorithmConfig

_LearningRate = Annotated[float, Field(gt=0, description="Learning rate of Adam.")]
_Entropy = Annotated[float, Field(ge=0, description="Weight of the entropy bonus.")]
_ValueLoss = Annotated[float, Field(ge=0, description="Weight of the critic's squared error.")]
_GradClip = Annotated[float, Field(gt=0)] | None
_Batch = Annotated[int, Field(gt=0, description="Environment steps per training batch.")]
_EnvsPerRunner = Annotated[
    int, Field(gt=0, description="Environments that each of RLlib's env runners steps in parallel.")
]


class RLlibConfig(AlgorithmConfig):
    """What every algorithm of RLlib has."""

    epoch_length: PositiveInt = 1
    """RLlib's training iterations per epoch."""
    device: Literal["cpu"] = "cpu"
    """Device on which the policy learns."""
    rllib: Annotated[dict[str, JsonValue], Outside.ARGUMENTS] = Field(default_factory=dict)
    """Any other parameter of RLlib, by its name in RLlib."""
    rllib_model: bool = False
    """Train RLlib's default network instead of Maze's. `maze eval` cannot open such a run."""
    num_envs_per_env_runner: _EnvsPerRunner = 8
    watchdog_seconds: Annotated[float, Field(gt=0)] = 120.0
    """Seconds without new steps or without learning before the run ends with an error."""

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
    """Clip range of the probability ratio of the new to the old policy, around 1."""
    vf_clip_param: Annotated[float, Field(gt=0)] = 10.0
    """Clip value of the critic's squared error; larger errors have no gradient."""
    vf_loss_coeff: _ValueLoss = 1.0
    entropy_coeff: _Entropy = 0.0
    kl_coeff: Annotated[float, Field(ge=0)] = 0.2
    """Initial weight of the KL divergence from the old policy; RLlib adapts it to reach `kl_target`."""
    kl_target: Annotated[float, Field(gt=0)] = 0.01
    """Target of the KL divergence from the old policy."""
    grad_clip: _GradClip = None
    """Largest global norm of the gradients; none: no clipping."""


class IMPALAConfig(RLlibConfig):
    """RLlib's IMPALA."""

    epoch_length: PositiveInt = 10
    """RLlib's training iterations per epoch; each has at least one batch."""
    lr: _LearningRate = 5e-4
    gamma: params.Gamma = 0.99
    train_batch_size_per_learner: _Batch = 500
    rollout_fragment_length: PositiveInt = 50
    """Steps per trajectory."""
    vf_loss_coeff: _ValueLoss = 0.5
    entropy_coeff: _Entropy = 0.01
    grad_clip: _GradClip = 40.0
    """Largest global norm of the gradients; none: no clipping."""
    vtrace_clip_rho_threshold: Annotated[float, Field(gt=0)] = 1.0
    """Upper bound of the importance weights in the critic's targets."""
    vtrace_clip_pg_rho_threshold: Annotated[float, Field(gt=0)] = 1.0
    """Upper bound of the importance weights in the policy gradient."""


class APPOConfig(IMPALAConfig):
    """RLlib's APPO: IMPALA with PPO's clipped objective."""

    gae_lambda: params.GaeLambda = 1.0
    clip_param: Annotated[float, Field(gt=0)] = 0.4
    """Clip range of the probability ratio of the new to the old policy, around 1."""
    use_kl_loss: bool = False
    """Add the KL divergence from the old policy to the loss."""


class DQNConfig(RLlibConfig):
    """RLlib's DQN: double, dueling, with n-step returns and prioritised replay."""

    epoch_length: PositiveInt = 5
    """RLlib's training iterations per epoch; each is 1,000 steps of the environments."""
    num_envs_per_env_runner: _EnvsPerRunner = 1
    lr: _LearningRate = 5e-4
    gamma: params.Gamma = 0.99
    train_batch_size_per_learner: _Batch = 32
    n_step: params.ReturnSteps = 1
    double_q: bool = True
    """Select the next action with the network and evaluate it with the target network."""
    dueling: bool = True
    """Compute action values as a state value plus advantages; the state value is the model's critic."""
    target_network_update_freq: PositiveInt = 500
    """Environment steps between updates of the target network."""
    num_steps_sampled_before_learning_starts: PositiveInt = 1000
    """Environment steps before learning begins."""
    training_intensity: Annotated[float, Field(gt=0)] | None = None
    """Rows learned from per environment step; none: one batch per round of steps."""
    grad_clip: _GradClip = 40.0
    """Largest global norm of the gradients; none: no clipping."""


class SACConfig(RLlibConfig):
    """RLlib's SAC."""

    epoch_length: PositiveInt = 5
    """RLlib's training iterations per epoch."""
    num_envs_per_env_runner: _EnvsPerRunner = 1
    critic_hidden: params.Hidden = (256, 256)
    """Units of each critic's layers, which follow its own copy of the policy's encoder."""
    actor_lr: _LearningRate = 3e-5
    critic_lr: _LearningRate = 3e-4
    alpha_lr: _LearningRate = 3e-4
    gamma: params.Gamma = 0.99
    tau: params.TargetRate = 5e-3
    train_batch_size_per_learner: _Batch = 256
    n_step: params.ReturnSteps = 1
    twin_q: bool = True
    """Use two critics and take the smaller value."""
    initial_alpha: Annotated[float, Field(gt=0)] = 1.0
    """Initial weight of the entropy."""
    num_steps_sampled_before_learning_starts: PositiveInt = 1500
    """Environment steps before learning begins."""
    training_intensity: Annotated[float, Field(gt=0)] | None = None
    """Rows learned from per environment step; none: one batch per round of steps."""
    grad_clip: _GradClip = None
    """Largest global norm of the gradients; none: no clipping."""


class BCConfig(RLlibConfig):
    """RLlib's behavioural cloning."""

    epoch_length: PositiveInt = 50
    """Batches per epoch."""
    dataset: Annotated[str, Field(min_length=1), Outside.NOTHING] = "trajectory_data"
    """Folder of recorded trajectories (written by `maze rollout --record`), or a folder that contains several."""
    lr: _LearningRate = 1e-4
    train_batch_size_per_learner: Annotated[int, Field(gt=0, description="Recorded steps per batch.")] = 2000
    grad_clip: _GradClip = None
    """Largest global norm of the gradients; none: no clipping."""


class MARWILConfig(BCConfig):
    """RLlib's MARWIL: cloning that prefers what turned out better than expected."""

    gamma: params.Gamma = 0.99
    beta: Annotated[float, Field(ge=0, le=1)] = 1.0
    """How strongly better actions are weighted; 0 is behavioural cloning."""
    vf_coeff: _ValueLoss = 1.0
