"""The complete configuration of a run, as saved in `config.yaml` in the run directory."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt, PositiveInt, SerializeAsAny

from maze_core.config.base import ConfigModel, PluginConfig
from maze_core.config.params import SideBySide


class AlgorithmConfig(PluginConfig):
    """The parameters that every algorithm has."""

    n_epochs: NonNegativeInt = 0
    """Epochs to train; 0: until early stopping or `steps`."""
    epoch_length: PositiveInt = 25
    """Updates in one epoch."""
    patience: NonNegativeInt = 15
    """Epochs without a new best evaluation before the run stops; 0: never, as where you give `steps` or `n_epochs` and
    no patience."""
    device: Literal["cpu", "cuda", "auto"] = "cpu"
    """Where the policy learns: `auto` uses a GPU if there is one."""

    @property
    def evaluation_episodes(self) -> int:
        """Episodes of one evaluation if `evaluation.n_episodes` is not set."""
        return 8


class EvaluationConfig(ConfigModel):
    """How a policy is evaluated at the end of each epoch, of the run, and by `maze eval`."""

    deterministic: bool = True
    """Take the most likely action instead of sampling."""
    n_episodes: PositiveInt | None = None
    """Episodes of one evaluation; none: 8, or what the algorithm has a parameter for (`n_eval_rollouts` of es)."""
    num_envs: SideBySide = 8
    """Environments stepped in parallel, but no more than episodes."""
    max_episode_steps: PositiveInt | None = 108_000
    """Steps after which an episode is cut and counts with its return so far, for environments without their own limit;
    none: never. The default is the longest limit in use, that of Atari without frame skip."""


class RunConfig(ConfigModel):
    """Everything that determines a run. Each part except `evaluation` is the configuration of a named plugin."""

    env: SerializeAsAny[PluginConfig]
    """The environment: an env source and its parameters."""
    wrappers: tuple[SerializeAsAny[PluginConfig], ...] = ()
    """Environment wrappers, the first innermost."""
    model: SerializeAsAny[PluginConfig]
    """The policy network and critic."""
    algorithm: SerializeAsAny[AlgorithmConfig]
    """The learning algorithm."""
    runner: SerializeAsAny[PluginConfig]
    """How environments are stepped: `dev` in this process, `local` in worker processes."""
    evaluation: EvaluationConfig = EvaluationConfig()
    """How the policy is evaluated."""
    callbacks: dict[str, SerializeAsAny[PluginConfig]] = Field(default_factory=dict)
    """Observers and loss extensions by name, called in this order."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    """The seed of all random numbers; none: one is drawn and stored."""
    steps: PositiveInt | None = None
    """Environment steps to train, over all environments; none: `algorithm.n_epochs` or early stopping decides."""
    threads: Annotated[int, Field(ge=0, le=1024)] = 1
    """Threads torch may use in this process; 0: as many as torch chooses. Small networks are fastest with 1."""

    @property
    def env_title(self) -> str:
        """The name of the environment: its id, the function that builds it, or its source."""
        function = getattr(self.env, "factory", "").rpartition(":")[2]
        return getattr(self.env, "id", "") or function or self.env.name

    @property
    def evaluation_episodes(self) -> int:
        """Episodes of one evaluation."""
        return self.evaluation.n_episodes or self.algorithm.evaluation_episodes
