"""Pools execute the runs of a sweep: the interface between a sweep and a runner.

A sweep submits jobs and is told how they ended; it reads everything else from the run directories. The pool of a runner
is found by an entry point of the group `maze.sweep_pools` with the runner's name: a function of the runner's
configuration and the number of jobs. A pool calls `maze_sweep.execute.execute` for each job, in a process that does
nothing else, and passes on the result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from maze_core import ConfigError
from maze_core.plugins import discovery

if TYPE_CHECKING:
    from maze_core import PluginConfig

Outcome = Literal["finished", "stopped", "interrupted", "failed", "killed"]
"""As in `RunSummary`; killed: the process exited without a result."""


@dataclass(frozen=True, slots=True)
class SweepJob:
    """One run of a sweep, as plain data that can be sent to another process or machine."""

    name: str
    """Name of the run within its sweep, such as `t003-s1`."""
    run_dir: str
    """Absolute path of the run's folder, on a disk that the sweep's process can read too.

    If it holds a checkpoint, the run resumes from it; otherwise it starts.
    """
    log: str
    """Absolute path of the file for the run's output."""
    config: dict[str, Any]
    """The complete configuration with its seed, as `load_run_config` takes it."""
    preset: str | None = None
    """Name of the preset contained in `config`, for the record."""
    init_from: str | None = None
    """Absolute path of the run from which a new run's weights are loaded."""
    fork_of: str | None = None
    """Absolute path of the run whose last state a new run begins with; `config` may differ from that of the other."""
    classes: tuple[str, ...] = ()
    """Policy classes `module:Class` that the user has named, which `config` may name."""
    search_path: tuple[str, ...] = ()
    """Folders to import modules from: `sys.path` of the sweep's process."""


@dataclass(frozen=True, slots=True)
class JobEnd:
    """How a job ended."""

    name: str
    outcome: Outcome
    reason: str
    """One plain sentence."""


POOLS = "maze.sweep_pools"
"""The entry-point group of pools, each by the name of its runner."""


class SweepPool(Protocol):
    """Processes that execute jobs, each job in its own process with one thread.

    No process outlives `close` or the sweep's own process, however that ends.
    """

    size: int
    """Most jobs that run in parallel; `start` is called only while fewer run."""

    def start(self, job: SweepJob) -> None:
        """Start a job and return at once; `ended` reports a job that cannot be started as failed."""

    def ended(self, timeout: float) -> list[JobEnd]:
        """Return the jobs that ended since the last call; wait up to `timeout` seconds for the first."""

    def interrupt(self, name: str) -> None:
        """Ask a running job to end as on Ctrl-C: after the current update, with a checkpoint. Returns at once."""

    def close(self) -> None:
        """End running jobs without waiting for checkpoints; safe to call twice."""


def open_pool(runner: PluginConfig, jobs: int | None) -> SweepPool:
    """Return the pool that executes a sweep with a runner. Close it when done with it.

    Args:
        runner: the runner's configuration.
        jobs: runs in parallel; None: as many as the runner chooses.

    Raises:
        ConfigError: this runner cannot execute sweeps.
        PluginError: the pool cannot be imported.
    """
    claims = discovery.entries(POOLS, runner.name)
    if not claims:
        raise ConfigError(f"the runner {runner.name} cannot run a sweep", "--runner", "Next: --runner local")
    pool: SweepPool = discovery.import_claim(claims[0])(runner, jobs)
    return pool
