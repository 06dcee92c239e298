"""The base of runner plugins."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from maze_core.plugins import discovery
from maze_core.plugins.config.base import PluginConfig

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from maze_core.collect.pools.workers import Task, WorkerPool
    from maze_core.envs.builder import EnvBuilder
    from maze_core.envs.vector import VectorEnv

LOOPBACK = "127.0.0.1"
"""The address of the loopback interface, which only processes of this machine reach."""
_PROCESSES = "local"
"""The runner whose processes further learners are, where a runner has no workers of its own for them."""


class Runner(ABC):
    """A runner plugin: decides in which processes environments are stepped and tasks run."""

    Config: ClassVar[type[PluginConfig]] = PluginConfig
    has_collectors: ClassVar[bool] = False
    """True: workers collect the data of algorithms that do not run ahead. False: these step `vector_env`."""

    def __init__(self, config: Any) -> None:
        self.config = config

    @abstractmethod
    def vector_env(self, builder: EnvBuilder, num_envs: int) -> VectorEnv:
        """Build `num_envs` environments to be stepped together.

        Uses the source's natively vectorised form (`builder.vector_env`) where there is one. Environments on workers
        that can play whole episodes have a method `evaluate(policy, look, memory, **game)`: it returns the episodes of
        `evaluate_policy`, or None where it cannot play the same. Where `has_collectors`, those that take several steps
        on their own have the methods `assign`, `gather` and `take` of the runner `local`'s.

        Raises:
            ConfigError: the environment cannot be built, or its spaces are not supported.
        """

    @property
    def default_workers(self) -> int:
        """The default number of workers for a task that any number can share."""
        return 1

    @abstractmethod
    def workers(self, task: Task, count: int) -> WorkerPool:
        """Start `count` workers, set up with `task`, that wait for jobs. The caller closes the pool.

        Raises:
            ConfigError: the task cannot be sent to another process, or its `setup` raised this.
            RunError: a worker failed to start.
        """

    def collectors(self, task: Task, count: int) -> WorkerPool:
        """Start `count` workers that collect rollouts, where `has_collectors`. The caller closes the pool.

        Raises:
            ConfigError, RunError: as for `workers`.
        """
        return self.workers(task, count)

    def keep_log(self, folder: Path) -> None:  # noqa: B027 — most runners have nothing to say
        """Keep from now on what the runner's own library says in a file of this run directory. By default nothing."""

    def on_loss(self, tell: Callable[[Exception], object]) -> None:  # noqa: B027 — nothing else can be lost
        """Call `tell`, from any thread, when all that workers run on is gone. By default never."""

    def learners(self, task: Task, count: int, gpus: bool = False) -> tuple[WorkerPool, str]:
        """Start `count` further learners, none of which is replaced if it dies: by default processes of the
        runner `local`.

        `gpus`: each computes on a GPU. Returns them, and the address at which this process listens for them, by default
        that of the loopback interface. The caller closes the pool.

        Raises:
            ConfigError, RunError: as for `workers`; or the runner `local` is not installed.
        """
        runner = discovery.load("runner", _PROCESSES)
        started: tuple[WorkerPool, str] = runner(runner.Config(name=_PROCESSES)).learners(task, count, gpus)
        return started
