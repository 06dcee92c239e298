"""Where the runs of a sweep are carried out: the contract between a sweep and what stands for a runner.

A sweep hands out jobs and hears how they ended; everything else it reads in the run directories. The pool of a runner
is found by an entry point of the group `maze.sweep_pools` with the runner's name: a function of the runner's
configuration and the number of jobs. Whatever carries out a job calls `maze_sweep.execute.execute` in a process that
does nothing else meanwhile, and passes on what that returns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from maze_core.errors import ConfigError
from maze_core.plugins import discovery

if TYPE_CHECKING:
    from maze_core.config.base import PluginConfig

Outcome = Literal["finished", "stopped", "interrupted", "failed", "killed"]
"""As in `RunSummary`; killed: the process ended without a word."""


@dataclass(frozen=True, slots=True)
class SweepJob:
    """One run of a sweep: plain data, so that it can be sent anywhere."""

    name: str
    """Names the run within its sweep, such as `t003-s1`."""
    run_dir: str
    """Absolute path of the run's folder, on a disk that the sweep's own process sees too.

    Where it holds a checkpoint, the run goes on from there; where not, it begins.
    """
    log: str
    """Absolute path of the file that gets what the run prints."""
    config: dict[str, Any]
    """The whole configuration with its seed, as `load_run_config` takes it."""
    preset: str | None = None
    """Name of the preset that is part of `config`, for the record."""
    init_from: str | None = None
    """Absolute path of the run that a new run's weights come from."""
    search_path: tuple[str, ...] = ()
    """Folders that modules are imported from: `sys.path` of the sweep's own process."""


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
    """Processes that carry out jobs, each job in a process of its own with one thread.

    No process outlives `close`, nor the sweep's own process, however that ends.
    """

    size: int
    """Jobs that run side by side; `start` is called only while fewer do."""

    def start(self, job: SweepJob) -> None:
        """Begin a job. Returns at once; a job that cannot be begun is reported by `ended` as failed."""

    def ended(self, timeout: float) -> list[JobEnd]:
        """The jobs that ended since the last call; waits up to `timeout` seconds for the first."""

    def interrupt(self, name: str) -> None:
        """Ask a running job to end as on Ctrl-C: after the update under way, with its checkpoint. Returns at once."""

    def close(self) -> None:
        """End what still runs, without waiting for checkpoints; safe to call twice."""


def open_pool(runner: PluginConfig, jobs: int | None) -> SweepPool:
    """Return the pool that carries out a sweep for a runner. Close it when done with it.

    Args:
        runner: the runner's configuration.
        jobs: runs side by side; None: as many as the runner thinks fit.

    Raises:
        ConfigError: no sweep can be spread over this runner.
        PluginError: the pool cannot be imported.
    """
    claims = discovery.entries(POOLS, runner.name)
    if not claims:
        hint = "Next: --runner local"
        if hasattr(discovery.load("runner", runner.name), "sweep_pool"):
            hint = f"Its method sweep_pool is not called any more: name a function in the entry-point group {POOLS}"
        raise ConfigError(f"the runner {runner.name} cannot spread a sweep", "--runner", hint)
    pool: SweepPool = discovery.import_claim(claims[0])(runner, jobs)
    return pool
