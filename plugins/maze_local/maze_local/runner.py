"""The runner `local`: environments and workers in processes of this machine."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import Field, NonNegativeInt

from maze_core import PluginConfig
from maze_core.collect.pools.runner import LOOPBACK, Runner
from maze_core.envs.in_process import native_env
from maze_core.plugins.config.params import SideBySide
from maze_local.pooled_envs import PooledVectorEnv
from maze_local.process_pool import ProcessPool
from maze_local.processes import StartMethod

if TYPE_CHECKING:
    from maze_core import EnvBuilder, Task, VectorEnv
    from maze_core.collect.pools.workers import WorkerPool


class LocalConfig(PluginConfig):
    """Environments in worker processes."""

    workers: SideBySide | None = None
    """Worker processes; none: one per core, but at most one per environment."""
    step_timeout: Annotated[float, Field(ge=0.01)] = 60.0
    """Seconds before a step that does not return ends the run; workers that collect or play evaluations report within
    this time. Construction and reset may take ten times as long."""
    start_method: StartMethod = "forkserver"
    """Method by which Python starts worker processes."""
    job_timeout: Annotated[float, Field(ge=0.01)] = 300.0
    """Seconds before a worker that does not finish a job of the algorithm (a rollout of IMPALA) ends the run."""
    max_restarts: NonNegativeInt = 10
    """Number of restarts of workers that died: of those that do jobs, those that collect and those that play
    evaluations, each; one more death ends the run."""


class LocalRunner(Runner):
    """Steps the environments in worker processes: faster than `dev` where one step takes a millisecond or more."""

    Config: ClassVar[type[PluginConfig]] = LocalConfig
    has_collectors = True

    def vector_env(self, builder: EnvBuilder, num_envs: int) -> VectorEnv:
        """Build the environments in worker processes, or a natively vectorised one in this process.

        The workers also take steps on their own and play whole episodes, and are replaced if they die.
        """
        if (native := native_env(builder, num_envs)) is not None:
            return native
        workers = min(self.default_workers, num_envs)
        return PooledVectorEnv(builder, num_envs, workers, self.collectors)

    @property
    def default_workers(self) -> int:
        """The configured number of workers, or one for each core."""
        return self.config.workers or _cores()

    def workers(self, task: Task, count: int) -> WorkerPool:
        """Start worker processes."""
        config = self.config
        return ProcessPool(task, count, config.job_timeout, config.max_restarts, config.start_method)

    def collectors(self, task: Task, count: int) -> WorkerPool:
        """Start worker processes that report within the time limit of a step."""
        config = self.config
        setup = 10 * config.step_timeout
        return ProcessPool(task, count, config.step_timeout, config.max_restarts, config.start_method, setup)

    def learners(self, task: Task, count: int, gpus: bool = False) -> tuple[WorkerPool, str]:
        """Start further learners as processes."""
        config = self.config
        return ProcessPool(task, count, config.job_timeout, start_method=config.start_method, learners=True), LOOPBACK


def _cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
