"""The complete configuration of a run, as saved in `config.yaml` in the run directory."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Annotated, Any, Literal, Self

from pydantic import (
    Field,
    NonNegativeInt,
    PositiveInt,
    SerializeAsAny,
    ValidationInfo,
    field_validator,
    model_validator,
)

from maze_core.base.metrics import RETURN
from maze_core.plugins.config.base import ConfigModel, PluginConfig
from maze_core.plugins.config.external_fields import Outside
from maze_core.plugins.config.params import Duration, SideBySide
from maze_core.plugins.config.schedules import Schedule, filled_in

Value = bool | int | float | str
"""Of a parameter of an environment."""
Several = Annotated[tuple[Value, ...], Field(min_length=1)]


class AlgorithmConfig(PluginConfig):
    """The parameters that every algorithm has."""

    n_epochs: NonNegativeInt = 0
    """Epochs to train; 0: until early stopping ends the run or `steps` are done."""
    epoch_length: PositiveInt = 25
    """Updates per epoch."""
    device: Literal["cpu", "cuda", "auto"] = "cpu"
    """Device on which the policy learns; `auto` uses a GPU if there is one."""

    @field_validator("*", mode="before")
    @classmethod
    def _check_schedules(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse schedules of what keeps its value, and let others begin where the parameter is by default."""
        if isinstance(value, Mapping | Schedule):
            return filled_in(value, cls.model_fields[info.field_name or ""])
        return value

    @property
    def evaluation_episodes(self) -> int:
        """Episodes of one evaluation if `evaluation.n_episodes` is not set."""
        return 8


class EvaluationConfig(ConfigModel):
    """How a policy is evaluated at the end of each epoch, of the run, and by `maze eval`."""

    deterministic: bool = True
    """Take the most likely action instead of sampling."""
    n_episodes: NonNegativeInt | None = None
    """Episodes per evaluation; none: the algorithm's own parameter (such as `n_eval_rollouts` of es), otherwise 8; 0:
    nothing is evaluated, and the mean return of training in an epoch decides which checkpoint is best."""
    num_envs: SideBySide = 16
    """Environments stepped in parallel, at most one per episode."""
    max_episode_steps: PositiveInt | None = 108_000
    """Steps after which an evaluation episode is cut, for environments without a time limit. It counts with its return
    so far. None: never. The default is the limit of Atari without frame skip, the longest in common use."""
    parameters: Annotated[tuple[dict[str, Value], ...] | dict[str, Several], Outside.ARGUMENTS] = ()
    """Parameters of the environment that the episodes have in turn: a list such as `[{size: 9}, {size: 16}]`, or a grid
    such as `{size: [9, 16], wind: [0, 1]}`. The metrics have each, as `eval/size=16/return_mean`. Empty: the
    environment is as it was built."""

    @model_validator(mode="after")
    def _check_rows(self) -> Self:
        if self.n_episodes is not None and self.n_episodes < len(self.rows):
            raise ValueError(f"n_episodes is {self.n_episodes}, and `parameters` has {len(self.rows)} entries")
        if len({frozenset(row) for row in self.rows}) > 1:
            raise ValueError("each entry of `parameters` has to name the same parameters")
        return self

    @property
    def rows(self) -> tuple[dict[str, Value], ...]:
        """The parameters, with a grid written out."""
        if isinstance(self.parameters, tuple):
            return self.parameters
        rows = product(*self.parameters.values()) if self.parameters else ()
        return tuple(dict(zip(self.parameters, row, strict=True)) for row in rows)


class ScoreConfig(ConfigModel):
    """What says which policy of a run is the best, for checkpoints, early stopping and rankings."""

    metric: Annotated[str, Field(pattern=r".+/.+")]
    """A metric of the run's epochs, such as `eval/length_median`; `eval/on_time` is also the KPI `eval/kpi/on_time`."""
    maximize: bool = True
    """False: lower values are better."""


class RunConfig(ConfigModel):
    """Everything that determines a run. Each part except `evaluation` and `score` is the configuration of a plugin."""

    env: SerializeAsAny[PluginConfig]
    """The environment: an env source and its parameters."""
    wrappers: tuple[SerializeAsAny[PluginConfig], ...] = ()
    """Environment wrappers, applied in order; the first is innermost."""
    model: SerializeAsAny[PluginConfig]
    """The policy network and critic."""
    algorithm: SerializeAsAny[AlgorithmConfig]
    """The learning algorithm."""
    runner: SerializeAsAny[PluginConfig]
    """Where environments are stepped: `dev` in this process, `local` in worker processes."""
    evaluation: EvaluationConfig = EvaluationConfig()
    """How the policy is evaluated."""
    score: ScoreConfig | None = None
    """What says which policy is the best; none: the mean return of evaluations, or what the algorithm says."""
    callbacks: dict[str, SerializeAsAny[PluginConfig]] = Field(default_factory=dict)
    """Observers and loss extensions by name, called in this order."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    """Seed of all random numbers; none: a seed is drawn and saved."""
    steps: PositiveInt | None = None
    """Environment steps to train, summed over all environments; none: `algorithm.n_epochs` or early stopping
    decides."""
    max_time: Duration | None = None
    """Seconds, or a time such as `2h`, after which training ends with a last evaluation and everything saved; `maze
    resume` goes on for as long again. None: no limit."""
    threads: Annotated[int, Field(ge=0, le=1024)] = 1
    """Threads of torch in this process; 0: torch decides. Small networks are fastest with 1."""
    closed_form: bool = True
    """Compute the gradients of small fully connected networks by formulas where the algorithm has them, in about half
    the time of torch's autograd. The result is the same but for rounding."""
    cuda_graphs: bool = True
    """On a GPU record the loss, its gradients and the optimizer's step once, and repeat the recording, where the
    algorithm allows it: small networks learn several times as fast. The result is the same but for rounding."""
    compile: Literal["off", "on", "auto"] = "auto"
    """Compile the loss and its gradients on a CPU, where the algorithm allows it: `on`: at the first step; `auto`: in
    the background of runs that have 30,000 steps of the learner and more to go. Needs a C++ compiler and some 20
    seconds for each kind of batch. The result is the same but for rounding. Rollouts of
    environments in JAX are compiled from the first one on."""
    learners: Annotated[int, Field(ge=1, le=64)] = 1
    """Processes that compute gradients: this one and further ones, among which the rows of each batch are divided. The
    result is the same but for rounding. Pays where a gradient takes longer than sending networks and rows."""

    @property
    def env_title(self) -> str:
        """The name of the environment: its id, the function that builds it, or its source."""
        function = getattr(self.env, "factory", "").rpartition(":")[2]
        return getattr(self.env, "id", "") or function or self.env.name

    @property
    def info_columns(self) -> tuple[str, ...]:
        """The numbers of `info` that the algorithm learns from, and those that configurations of callbacks name."""
        own = self.algorithm.plugin_class("algorithm").info_columns
        return (*own, *(name for each in self.callbacks.values() for name in getattr(each, "info_columns", ())))

    @property
    def judged_by(self) -> str:
        """The metric of the score; that of returns where the algorithm says the score."""
        return RETURN if self.score is None else self.score.metric

    @property
    def evaluation_episodes(self) -> int:
        """Episodes of one evaluation; 0: nothing is evaluated."""
        own = self.evaluation.n_episodes
        return max(self.algorithm.evaluation_episodes, len(self.evaluation.rows)) if own is None else own
