"""Workers without processes: the pool of the runner `dev`."""

from __future__ import annotations

import copy
import math
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from maze_core.base.errors import ConfigError, MazeError, RunError
from maze_core.base.saved_state import Count, Each, OrEmpty, varies
from maze_core.base.tree import copy_tree, map_tree
from maze_core.collect.pools.workers import Arrays, JobResult, Shared, Task, jobs_form
from maze_core.plugins.closing import release

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class _Job:
    number: int
    worker: int
    content: Any


class SerialPool:
    """Runs jobs in this process, one after the other, in the order of submission, when they are collected.

    The same calls give the same results. Jobs without a given worker go to the workers in turn. Each worker is a
    shallow copy of the task, so `setup` may set attributes but not change objects that the task was built with.

    Raises:
        MazeError: `setup` raised it.
    """

    def __init__(self, task: Task, count: int) -> None:
        self.num_workers = count
        self.restarts = 0
        self.job_timeout = math.inf
        self._shared = Shared(0, {})
        self._jobs: deque[_Job] = deque()
        self._submitted = 0
        self._tasks: list[Task] = []
        try:
            for worker in range(count):
                self._tasks.append(copy.copy(task))
                self._tasks[worker].setup(worker)
        except BaseException:
            self.close()
            raise

    def share(self, arrays: Arrays) -> int:
        """Copy and publish parameters for the jobs that begin from now on. Return the version."""
        self._shared = Shared(self._shared.version + 1, map_tree(_frozen, arrays))
        return self._shared.version

    def submit(self, job: Any, worker: int | None = None, patience: float = 1.0) -> int:
        """Queue a job. Return its number. There is no time limit here."""
        number = self._submitted
        self._submitted += 1
        self._jobs.append(_Job(number, number % self.num_workers if worker is None else worker, job))
        return number

    def submit_each(self, jobs: Sequence[Any], patience: float = 1.0) -> list[int]:
        """Queue a job for each of the first workers. Return their numbers."""
        return [self.submit(job, worker) for worker, job in enumerate(jobs)]

    def collect(self, timeout: float | None = None) -> JobResult | None:
        """Run the oldest job and return its result; None where no job is pending. Never waits, whatever `timeout`.

        Raises:
            MazeError: the task raised it; any other exception of the task becomes a RunError.
        """
        if not self._jobs:
            return None
        job = self._jobs.popleft()
        try:
            return JobResult(job.number, job.worker, self._tasks[job.worker].run(job.content, self._shared))
        except MazeError:
            raise
        except Exception as error:
            raise RunError(f"worker {job.worker} failed: {type(error).__name__}: {error}") from error

    def state(self) -> dict[str, Any]:
        """Return the tasks' states, the pending jobs, and the parameters shared last."""
        tasks = [task.state() for task in self._tasks]
        jobs = [[job.number, job.worker, job.content] for job in self._jobs]
        state = {
            "tasks": varies(tasks, Each(tasks[0])),
            "jobs": varies(jobs, jobs_form(self._tasks[0])),
            "submitted": varies(self._submitted, Count()),
            "version": varies(self._shared.version, Count()),
            "arrays": copy_tree(self._shared.arrays),
        }
        return varies(state, OrEmpty(state))

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()` of a pool with as many workers; an empty one changes nothing.

        Raises:
            ConfigError: the state has another number of workers.
        """
        if not state:
            return
        if len(state["tasks"]) != self.num_workers:
            raise ConfigError(f"the saved run has {len(state['tasks'])} workers, this one {self.num_workers}")
        for task, saved in zip(self._tasks, state["tasks"], strict=True):
            task.load_state(saved)
        self._jobs = deque(_Job(number, worker % self.num_workers, job) for number, worker, job in state["jobs"])
        self._submitted = max([state["submitted"], *(job.number + 1 for job in self._jobs)])
        self._shared = Shared(state["version"], map_tree(_frozen, state["arrays"]))

    def close(self) -> None:
        """Close the tasks; safe to call twice."""
        tasks, self._tasks = self._tasks, []
        self._jobs.clear()
        release(*tasks)


def _frozen(array: Any) -> Any:
    """Return a read-only copy."""
    kept = array.copy()
    kept.flags.writeable = False
    return kept
