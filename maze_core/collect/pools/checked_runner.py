"""A runner as the core calls it: what it returns is checked, and what goes wrong in it names it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from maze_core.base.terminal_text import kind_of, shown
from maze_core.envs.vector import copies_of
from maze_core.plugins.direct_calls import broken, named

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from maze_core.base.errors import PluginError
    from maze_core.collect.pools.runner import Runner
    from maze_core.collect.pools.workers import Task, WorkerPool
    from maze_core.envs.builder import EnvBuilder
    from maze_core.envs.vector import VectorEnv
    from maze_core.plugins.config.base import PluginConfig

_OF_ENVS = ("num_envs", "observation_space", "action_space", "reset", "step", "state", "restore", "memory", "close")
_OF_LEARNERS = ("submit", "collect", "close")
_OF_POOLS = ("num_workers", "share", "submit", "submit_each", "collect", "state", "load_state", "close")


class CheckedRunner:
    """The runner of a configuration. Its methods are those of `Runner`.

    Raises:
        PluginError: it cannot be built, or a method returned something else than it promises.
    """

    def __init__(self, config: PluginConfig) -> None:
        self._name = config.name
        plugin = config.plugin_class("runner")
        with named("runner", self._name, " cannot be built"):
            self._inner: Runner = plugin(config)

    @property
    def has_collectors(self) -> bool:
        """True where workers collect the data."""
        return self._inner.has_collectors

    def vector_env(self, builder: EnvBuilder, num_envs: int) -> VectorEnv:
        """Build environments that are stepped together."""
        with named("runner", self._name):
            env = self._inner.vector_env(builder, num_envs)
        self._check("vector_env", env, _OF_ENVS, "a VectorEnv")
        if (count := copies_of(env)) != num_envs:
            env.close()
            raise self._broken(f"`vector_env` returned {count} environments, not {num_envs}")
        return env

    def workers(self, task: Task, count: int | None, most: int | None = None) -> WorkerPool:
        """Start workers; `count` None: the runner's default number, but not above `most`."""
        chosen = self._default_workers() if count is None else count
        with named("runner", self._name):
            pool = self._inner.workers(task, chosen if most is None else min(chosen, most))
        self._check("workers", pool, _OF_POOLS, "a WorkerPool")
        return pool

    def learners(self, task: Task, count: int, gpus: bool) -> tuple[WorkerPool, str]:
        """Start further learners; return them and the address of this machine for them."""
        with named("runner", self._name):
            pool, host = self._inner.learners(task, count, gpus)
        self._check("learners", pool, _OF_LEARNERS, "a WorkerPool")
        return pool, host

    def keep_log(self, folder: Path) -> None:
        """Keep what the runner's library says in the run directory."""
        with named("runner", self._name):
            self._inner.keep_log(folder)

    def on_loss(self, tell: Callable[[Exception], object]) -> None:
        """Tell when what workers run on is gone."""
        with named("runner", self._name):
            self._inner.on_loss(tell)

    def _default_workers(self) -> int:
        with named("runner", self._name):
            count = self._inner.default_workers
        if type(count) is not int or count < 1:
            raise self._broken(f"`default_workers` is {shown(count)}, not a positive number")
        return count

    def _check(self, method: str, found: Any, wanted: tuple[str, ...], what: str) -> None:
        lacking = [name for name in wanted if not hasattr(found, name)]
        if lacking:
            raise self._broken(
                f"`{method}` returned {kind_of(found)}, which is not {what}: it has no {', '.join(lacking)}"
            )

    def _broken(self, problem: str) -> PluginError:
        return broken("runner", self._name, problem)
