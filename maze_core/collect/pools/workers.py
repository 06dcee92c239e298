"""The interface of workers: tasks that run jobs, and the pool of workers that the runner provides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from maze_core.base.errors import RunError
from maze_core.base.saved_state import Count, Each

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

Arrays = dict[str, np.ndarray]
"""Parameters by name, shared with workers; read-only in a worker."""


@dataclass(frozen=True, slots=True)
class Shared:
    """The parameters shared most recently when a job began."""

    version: int
    """Number of `WorkerPool.share` calls before; 0: none."""
    arrays: Arrays


class Task(Protocol):
    """The work of a worker: a small picklable object, set up once in the worker, then called for each job.

    A subclass whose results depend on jobs and shared parameters only needs no state. It may have a `job_form`: that of
    its jobs in a saved state (`maze_core.base.saved_state`), and a `title(worker)`: what messages call a worker.
    """

    def setup(self, worker: int) -> None:
        """Build environments and networks. Runs in the worker; `worker` is its number from 0."""

    def run(self, job: Any, shared: Shared) -> Any:
        """Run one job. Jobs and results are picklable; large arrays in a result are moved without pickling."""

    def state(self) -> dict[str, Any]:
        """Return what `load_state` needs to continue bit-exactly (plain values and arrays); called only on `dev`."""
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`, after `setup`."""
        return  # a subclass may leave it so

    def close(self) -> None:
        """Release what `setup` acquired."""


@dataclass(frozen=True, slots=True)
class JobResult:
    """The result of one job."""

    job: int
    """The number that `submit` returned."""
    worker: int
    value: Any


class WorkerPool(Protocol):
    """Workers with the same task.

    On the runner `dev` jobs run in this process, one after the other, in the order of submission, when they are
    collected: the same calls give the same results. On other runners results arrive in any order.
    A worker that dies is restarted, set up again and repeats its unfinished jobs, at most `max_restarts` times in all
    (the runner's configuration). Beyond that `collect` raises RunError, or a runner on several machines continues with
    fewer workers. Where a task raises, `collect` raises RunError with the original traceback.
    """

    num_workers: int
    restarts: int
    """Number of restarts so far."""
    job_timeout: float
    """Time limit of a job in seconds."""

    def share(self, arrays: Arrays) -> int:
        """Copy and publish parameters for the jobs that begin from now on. Return the version."""

    def submit(self, job: Any, worker: int | None = None, patience: float = 1.0) -> int:
        """Queue a job for one worker, or for the first free one. Return its number.

        `patience`: how many times the time limit it may take.
        """

    def submit_each(self, jobs: Sequence[Any], patience: float = 1.0) -> list[int]:
        """Queue a job for each of the first workers, which begin together. Return their numbers."""

    def collect(self, timeout: float | None = None) -> JobResult | None:
        """Return the next result; None where `timeout` seconds pass without one, or no job is pending."""

    def state(self) -> dict[str, Any]:
        """Return the tasks' states and the pending jobs; empty for other processes, which cannot repeat exactly."""

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`; an empty one changes nothing."""

    def close(self) -> None:
        """End the workers; safe to call twice."""


def jobs_form(task: Task) -> Any:
    """Return the form of the pending jobs in a saved state: number, worker, and the job itself."""
    return Each([Count(), Count(), getattr(task, "job_form", None)])


class OrderedResults:
    """Takes the results of a pool in the order in which somebody wants them, whoever finishes first."""

    def __init__(self, pool: WorkerPool) -> None:
        self._pool = pool
        self._early: dict[int, JobResult] = {}
        """Results that arrived before they were wanted."""

    def each(self, jobs: Iterable[Any]) -> Iterator[Any]:
        """Submit jobs, and yield what each returned, in their order. Raise RunError where one is lost."""
        numbers = [self._pool.submit(job) for job in jobs]
        return (self.of(number).value for number in numbers)

    def of(self, job: int) -> JobResult:
        """Wait for the result of a job, by the number that `submit` returned. Raise RunError where it is lost."""
        while job not in self._early:
            result = self._pool.collect()
            if result is None:
                raise RunError("the workers lost a job")
            self._early[result.job] = result
        return self._early.pop(job)
