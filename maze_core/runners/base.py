"""The base of runner plugins."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from maze_core.config.base import PluginConfig
from maze_core.config.params import SideBySide

if TYPE_CHECKING:
    from maze_core.envs.builder import EnvBuilder
    from maze_core.envs.vector import VectorEnv
    from maze_core.runners.workers import Task, WorkerPool


class RunnerConfig(PluginConfig):
    """What every runner has."""

    concurrency: SideBySide | None = None
    """Environments stepped side by side; none: the runner chooses."""


class Runner(ABC):
    """A runner plugin: decides in which processes environments are stepped and tasks are worked on."""

    Config: ClassVar[type[PluginConfig]] = RunnerConfig

    def __init__(self, config: Any) -> None:
        self.config = config

    @property
    @abstractmethod
    def concurrency(self) -> int:
        """Environments stepped side by side in training."""

    @abstractmethod
    def vector_env(self, builder: EnvBuilder, num_envs: int) -> VectorEnv:
        """Build `num_envs` environments to be stepped together.

        A natively vectorised source (`builder.vector_env`) is taken where there is one.

        Raises:
            ConfigError: the environment cannot be built, or its spaces are not supported.
        """

    @property
    def default_workers(self) -> int:
        """Workers for a task that any number of workers can share."""
        return 1

    @abstractmethod
    def workers(self, task: Task, count: int) -> WorkerPool:
        """Start `count` workers that are set up with `task` and wait for jobs. Close the pool when done with it.

        Raises:
            ConfigError: the task cannot be taken to another process, or what its `setup` raises.
            RunError: a worker failed to start.
        """
