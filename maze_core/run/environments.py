"""The environments and workers of a run: built when needed, closed together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from maze_core.base.errors import ConfigError
from maze_core.base.seeding import EpisodePlan
from maze_core.collect.pools.checked_runner import CheckedRunner
from maze_core.envs.builder import EnvBuilder
from maze_core.envs.checks import check_apart
from maze_core.envs.in_process import vector_env
from maze_core.envs.vector import agents_of, copies_of, instruct
from maze_core.envs.wrappers import OTHERS, forgotten, remembering
from maze_core.models.building import needs_agent_ids
from maze_core.plugins.closing import release, releasing
from maze_core.plugins.extensions import installed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import gymnasium

    from maze_core.base.seeding import Values
    from maze_core.collect.pools.workers import Task, WorkerPool
    from maze_core.envs.vector import VectorEnv
    from maze_core.envs.wrappers import Memory
    from maze_core.plugins.config.base import PluginConfig
    from maze_core.plugins.config.run import RunConfig


@dataclass(frozen=True, slots=True)
class Kind:
    """What all environments of a run have in common."""

    observation_space: gymnasium.Space[Any]
    action_space: gymnasium.Space[Any]
    agents: tuple[str, ...]
    """The names of the agents that have a row each; empty for one agent."""
    memory: list[Memory]
    """What the wrappers of an environment remember at first, one entry."""

    @classmethod
    def of(cls, env: VectorEnv) -> Kind:
        """Return that of these environments."""
        return cls(env.observation_space, env.action_space, agents_of(env), env.memory()[:1])


class RunEnvironments:
    """Builds the environments of training and evaluation, and starts workers, through the run's runner."""

    def __init__(self, config: RunConfig, *, vectorised: bool = True) -> None:
        self._config, self._vectorised = config, vectorised
        self._runner = CheckedRunner(config.runner)
        self._training: VectorEnv | None = None
        self._evaluation: VectorEnv | None = None
        self._pools: list[WorkerPool] = []
        self._dealt = 0
        self.plan: EpisodePlan | None = None
        """The parameters of the training episodes that begin from now on; None: environments stay as they are built."""
        self._spares: list[gymnasium.Env[Any, Any]] = []

    @property
    def evaluation(self) -> VectorEnv:
        """The evaluation environments, built at the first use."""
        if self._evaluation is None:
            self._evaluation = self._runner.vector_env(self.builder("evaluation"), self._evaluation_size())
            self._check_apart()
        return self._evaluation

    @cached_property
    def kind(self) -> Kind:
        """The spaces and agents of an environment.

        Where the evaluation environments are not needed yet, one is built in this process for that, and closed.
        """
        if self._evaluation is not None:
            return Kind.of(self._evaluation)
        with releasing(vector_env(self.builder("evaluation"), 1)) as env:
            return Kind.of(env)

    def training(self, num_envs: int) -> VectorEnv:
        """Return the `num_envs` training environments, built at the first call."""
        if self._training is None:
            self._training = self._runner.vector_env(self.builder("training"), num_envs)
            self._check_apart()
        return self._training

    @property
    def count(self) -> int:
        """The number of training environments that can be instructed."""
        return self._dealt if self._training is None else copies_of(self._training)

    def deal(self, count: int) -> None:
        """Say that so many environments of workers train, whose jobs take `plan` along."""
        self._dealt = count

    def instruct(self, rows: Sequence[Values]) -> None:
        """Let the episodes of training that begin from now on have these parameters of the environment, in turn.

        Raises:
            ConfigError: the run has no training environments in this process, or they have no parameters.
        """
        if not self.count:
            raise ConfigError(
                f"the environments of {self._config.algorithm.name} are those of its workers, whose parameters stay as "
                "they are",
                "algorithm",
                "Algorithms with a rollout or a replay collector can change them: maze plugins list algorithm",
            )
        self.plan = EpisodePlan(tuple(rows), self.count)
        if self._training is not None:
            instruct(self._training, self.plan)

    def training_memory(self) -> list[Memory]:
        """Return what the wrappers of the training environments remember; empty before these are built."""
        return [] if self._training is None else self._training.memory()

    def forgotten(self) -> str | None:
        """Return a note about a wrapper whose state cannot be saved; None: there is none."""
        if not self._may_remember:
            return None
        builder = self.builder("trial")
        return forgotten(lambda: builder.single(0))

    @property
    def _may_remember(self) -> bool:
        """True where a wrapper of others has attributes, which may be what it remembers."""
        return not self.kind.agents and any("attributes" in state for memory in self.kind.memory for state in memory)

    @cached_property
    def _remembering(self) -> tuple[str, str] | None:
        """The wrapper of others that remembers what a policy sees, and what to do without it; None: there is none."""
        if not self._may_remember:
            return None
        with releasing(self.builder("trial").single(0)) as env:
            name = remembering(env)
        advice_for = installed(OTHERS, "advice")
        advice = "" if name is None or advice_for is None else advice_for(name)
        if name is None or advice == "normalize_reward":  # a policy does not see rewards, and those reported are raw
            return None
        return name, f"Next: --wrappers {advice}" if advice else "Next: leave the wrapper out"

    def unshared(self) -> str | None:
        """Return a note for evaluations that do not get what a wrapper of training remembers; None: none is needed."""
        if self._remembering is None:
            return None
        name, way = self._remembering
        return (
            f"{name} remembers earlier episodes, but evaluations do not know those of training: "
            f"{self._config.algorithm.name} has no training environments in this process. {way}"
        )

    def left_behind(self) -> str | None:
        """Return a note for a policy that acts without its environments' wrappers; None: none is needed."""
        if self._remembering is None:
            return None
        name, way = self._remembering
        return (
            f"the policy takes observations as {name} returns them, and what that wrapper remembers of training is not "
            f"part of the policy. {way}, for a new run"
        )

    def spare(self) -> gymnasium.Env[Any, Any]:
        """Return one more environment like those of training, in this process, to try out."""
        env = self.builder("trial")(0 if self._training is None else self._training.num_envs)
        self._spares.append(env)
        return env

    def builder(self, purpose: str, env: PluginConfig | None = None) -> EnvBuilder:
        """Return a builder of single environments: those of training, or of `env`.

        Environments of evaluations and rollouts truncate endless episodes.
        """
        config = self._config
        return EnvBuilder(
            config.env if env is None else env,
            config.wrappers,
            seed=config.seed or 0,
            purpose=purpose,
            vectorised=self._vectorised,
            max_episode_steps=config.evaluation.max_episode_steps if purpose in ("evaluation", "rollout") else None,
            agent_ids=needs_agent_ids(config.model),
            parameters=config.evaluation.rows if purpose in ("evaluation", "rollout") else (),
            info_columns=config.info_columns,
        )

    @property
    def has_collectors(self) -> bool:
        """True where workers may collect from the training environments."""
        return self._runner.has_collectors and not self.kind.agents

    def keep_log(self, run_dir: Path) -> None:
        """Let the runner keep what its library says in the run directory."""
        self._runner.keep_log(run_dir)

    def on_loss(self, tell: Callable[[Exception], object]) -> None:
        """Let the runner tell when what its workers run on is gone."""
        self._runner.on_loss(tell)

    def workers(self, task: Task, count: int | None) -> WorkerPool:
        """Return workers started by the runner; `count` None: the runner chooses how many."""
        pool = self._runner.workers(task, count)
        self._pools.append(pool)
        return pool

    def learners(self, task: Task, count: int, gpus: bool) -> tuple[WorkerPool, str]:
        """Return further learners started by the runner, and the address of this machine for them."""
        pool, host = self._runner.learners(task, count, gpus)
        self._pools.append(pool)
        return pool, host

    @property
    def pools(self) -> tuple[WorkerPool, ...]:
        """The workers that `workers` and `learners` started."""
        return tuple(self._pools)

    def close(self) -> None:
        """Close all workers and environments."""
        release(*self._pools, self._training, self._evaluation, *self._spares)

    def _check_apart(self) -> None:
        """Refuse evaluations in an environment of training; those of other processes, or native ones, are apart."""
        both = (getattr(each, "envs", ()) for each in (self._training, self._evaluation))
        check_apart(env for envs in both for env in envs)

    def _evaluation_size(self) -> int:
        return max(1, min(self._config.evaluation.num_envs, self._config.evaluation_episodes))
