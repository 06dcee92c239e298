"""The workers' task: rollouts of one task with given parameters."""

from __future__ import annotations

import copy
import json
import zlib
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from maze_core.base.errors import ConfigError, MazeError
from maze_core.base.seeding import EpisodeSeeds, Purpose, torch_generator
from maze_core.collect.pools.workers import Task
from maze_core.collect.rollouts.sampler import Sampler
from maze_core.envs.faults import failure
from maze_core.envs.serial import SerialVectorEnv
from maze_core.envs.wrappers.carry import lasting_layers
from maze_core.models.parameters import load_arrays
from maze_core.plugins.closing import release

if TYPE_CHECKING:
    from maze_core.collect.pools.workers import Arrays, Shared
    from maze_core.data.rollout import Rollout
    from maze_core.envs.builder import EnvBuilder
    from maze_core.models.policy import Policy
    from maze_core.run.run import Run
    from maze_meta.config import MAMLConfig

STREAM = zlib.crc32(b"maze-meta")
"""The first number of the random streams of this distribution."""
_KEPT = 4
# Tasks by argument whose environments stay built: as many as there are where the list is short.


@dataclass(frozen=True, slots=True)
class Job:
    """Rollouts of one task."""

    task: Any
    parameters: Arrays
    """Parameters and buffers of the policy that acts."""
    path: tuple[int, ...]
    """Names the random numbers of this job."""


@dataclass
class Player(Task):
    """Plays rollouts of tasks. A result depends on the job alone, not on the worker."""

    builder: EnvBuilder
    policy: Policy
    seed: int
    rollouts: int
    steps: int
    by_argument: bool
    """True where a task is arguments of the constructor, False where it is for `set_task`."""

    def setup(self, worker: int) -> None:
        """Copy the policy: its parameters are those of a job."""
        self._policy = copy.deepcopy(self.policy).cpu()
        self._envs: dict[str, SerialVectorEnv] = {}

    def run(self, job: Job, shared: Shared) -> Rollout:
        """Begin episodes of a task in all of its environments, and return a rollout with the job's parameters."""
        load_arrays(self._policy, job.parameters)
        seeds = EpisodeSeeds(self.seed, Purpose.PLUGIN, (STREAM, 1, *job.path))
        noise = torch_generator(self.seed, Purpose.PLUGIN, STREAM, 2, *job.path)
        return Sampler(self._policy, self.envs(job.task), self.steps, seeds, noise).collect()

    def envs(self, task: Any) -> SerialVectorEnv:
        """Return environments of a task.

        Raises:
            ConfigError: they cannot be built with these arguments, or a wrapper keeps state across episodes.
            RunError: `set_task` failed.
        """
        if self.by_argument:
            return self._kept(json.dumps(task, sort_keys=True), lambda: self._with_arguments(task))
        envs = self._kept("", lambda: self.builder)
        for index, env in enumerate(envs.envs):
            try:
                env.get_wrapper_attr("set_task")(task)
            except MazeError:
                raise
            except Exception as error:
                raise failure(f"set_task of environment {index}", error) from error
        return envs

    def _kept(self, key: str, builder: Callable[[], EnvBuilder]) -> SerialVectorEnv:
        if key not in self._envs:
            if len(self._envs) == _KEPT:
                self._envs.pop(next(iter(self._envs))).close()
            self._envs[key] = envs = SerialVectorEnv(builder(), self.rollouts)
            for layer in (each for env in envs.envs for each in lasting_layers(env)):
                raise ConfigError(
                    f"{type(layer).__name__} keeps state across episodes, and the environments of a task begin anew",
                    "wrappers",
                    "Next: remove this wrapper. model.normalize_observations=true normalises in the policy.",
                )
        return self._envs[key]

    def _with_arguments(self, task: dict[str, Any]) -> EnvBuilder:
        env: Any = self.builder.env
        if not task:
            return self.builder
        return replace(self.builder, env=env.model_copy(update={"kwargs": {**env.kwargs, **task}}))

    def close(self) -> None:
        """Close the environments."""
        envs, self._envs = getattr(self, "_envs", {}), {}
        release(*envs.values())


def player_of(run: Run, config: MAMLConfig) -> Player:
    """Return the workers' task of a run."""
    return Player(
        builder=run.env_builder("training"),
        policy=run.policy,
        seed=run.seed,
        rollouts=config.rollouts_per_task,
        steps=config.n_rollout_steps,
        by_argument=config.tasks is not None,
    )


def check_task(player: Player, run: Run, task: Any) -> None:
    """Build an environment of a task, so that errors come before the first step.

    Raises:
        ConfigError: the environment refuses the task, or has other spaces with it.
        RunError: `set_task` failed.
    """
    alone = replace(player, rollouts=1)
    alone.setup(0)
    with closing(alone):
        env = alone.envs(task)
        for name in ("observation_space", "action_space"):
            if getattr(env, name) != getattr(run, name):
                raise ConfigError(f"with the task {task} the environment has another {name}", "algorithm.tasks")
