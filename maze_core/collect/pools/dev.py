"""The runner `dev`: everything in this process, in turn. Exactly repeatable, and the fastest for quick environments."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from maze_core.collect.pools.runner import Runner
from maze_core.envs.in_process import vector_env
from maze_core.plugins.config.base import PluginConfig

if TYPE_CHECKING:
    from maze_core.collect.pools.workers import Task, WorkerPool
    from maze_core.envs.builder import EnvBuilder
    from maze_core.envs.vector import VectorEnv


class DevConfig(PluginConfig):
    """Environments in this process, stepped in turn."""


class DevRunner(Runner):
    """Steps the environments and runs the workers in turn, in this process."""

    Config: ClassVar[type[PluginConfig]] = DevConfig

    def vector_env(self, builder: EnvBuilder, num_envs: int) -> VectorEnv:
        """Build the environments in this process."""
        return vector_env(builder, num_envs)

    def workers(self, task: Task, count: int) -> WorkerPool:
        """Set up workers in this process that run in turn."""
        from maze_core.collect.pools.serial import SerialPool

        return SerialPool(task, count)
