"""The runner `ray`: environments and workers on a Ray cluster."""

from __future__ import annotations

import os
from contextlib import closing
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from maze_core import PluginConfig
from maze_core.collect.pools.runner import LOOPBACK, Runner
from maze_core.envs.in_process import native_env
from maze_ray.config import RayConfig

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from maze_core import EnvBuilder, Task, VectorEnv
    from maze_core.collect.pools.workers import WorkerPool
    from maze_ray.session import Session


class RayRunner(Runner):
    """Steps the environments and runs the workers on a Ray cluster, or on a local Ray that ends with the run."""

    Config: ClassVar[type[PluginConfig]] = RayConfig
    has_collectors = True
    config: RayConfig

    def vector_env(self, builder: EnvBuilder, num_envs: int) -> VectorEnv:
        """Build the environments on workers; those of a natively vectorised source stay in this process.

        Workers of evaluation occupy no CPUs: they are idle while those of training work, and vice versa.
        """
        from maze_local.pooled_envs import PooledVectorEnv

        from maze_ray.pool import RayPool
        from maze_ray.session import import_ray

        if (native := native_env(builder, num_envs)) is not None:
            return native
        cpus = self.config.cpus_per_worker if builder.purpose == "training" else 0.0

        def start(task: Task, count: int) -> RayPool:
            return RayPool(task, count, self.config, cpus, lines=True)

        return PooledVectorEnv(builder, num_envs, self.default_workers, start, import_ray().cloudpickle.dumps)

    @property
    def default_workers(self) -> int:
        """`workers`, or one per CPU."""
        return self.config.workers or self._cpus

    def workers(self, task: Task, count: int) -> WorkerPool:
        """Start workers on the cluster."""
        from maze_ray.pool import RayPool

        return RayPool(task, count, self.config, self.config.cpus_per_worker)

    def learners(self, task: Task, count: int, gpus: bool = False) -> tuple[WorkerPool, str]:
        """Start further learners on the cluster, on different nodes where there are enough."""
        from maze_ray.pool import RayPool
        from maze_ray.session import import_ray

        pool = RayPool(task, count, self.config, self.config.cpus_per_worker, gpus=float(gpus), learners=True)
        return pool, LOOPBACK if pool.session.is_local else import_ray().util.get_node_ip_address()

    def collectors(self, task: Task, count: int) -> WorkerPool:
        """Start workers on the cluster; those on this node get a line of their own."""
        from maze_ray.pool import RayPool

        return RayPool(task, count, self.config, self.config.cpus_per_worker, lines=True)

    def keep_log(self, folder: Path) -> None:
        """Keep what Ray says in `ray.log`."""
        from maze_ray.session import Session

        Session.keep_log(folder)

    def on_loss(self, tell: Callable[[Exception], object]) -> None:
        """Tell of a cluster that is gone."""
        from maze_ray.session import Session

        Session.on_loss(tell)

    def connect(self) -> Session:
        """Return a share of the connection to the cluster, for a library that brings its own actors; close it."""
        from maze_ray.session import Session

        return Session(self.config)

    @cached_property
    def _cpus(self) -> int:
        """The number of CPUs of the cluster, at least 1; for a Ray started by Maze, those this process may use."""
        from maze_ray.connection import LOCAL
        from maze_ray.session import Session, import_ray, wanted_address

        if wanted_address(self.config) == LOCAL:
            return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        with closing(Session(self.config)):
            return max(1, int(import_ray().cluster_resources().get("CPU", 1)))
