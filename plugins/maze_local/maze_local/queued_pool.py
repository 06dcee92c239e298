"""The base of pools with workers in other processes: jobs wait in queues, results arrive in any order."""

from __future__ import annotations

import pickle
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from maze_core import Count, JobResult, RunError, Task, varies
from maze_core.base.saved_state import OrEmpty
from maze_core.collect.pools.workers import jobs_form

AHEAD = 2
"""Jobs assigned to a worker at a time, so that it need not wait for the driver between them."""


@dataclass(frozen=True, slots=True)
class Job:
    """A pickled job for a worker."""

    number: int
    worker: int | None
    """The number of the worker that must run it; None: any worker."""
    content: bytes
    patience: float = 1.0
    """How many times the time limit it may take."""


class QueuedPool(ABC):
    """Queues jobs and results of `count` workers; subclasses implement the communication.

    `learners`: the workers are further learners, of which none can be spared: the loss of one ends the run.
    """

    def __init__(self, task: Task, count: int, job_timeout: float = 300.0, learners: bool = False) -> None:
        self.num_workers = count
        self._jobs_form = jobs_form(task)
        self._named: Callable[[int], str] = getattr(task, "title", lambda worker: f"worker {worker}")
        """The name of a worker in messages, which may tell what it works on."""
        self._learners = learners
        self.job_timeout = job_timeout
        self.restarts = 0
        self._queues: dict[int | None, deque[Job]] = {worker: deque() for worker in (None, *range(count))}
        """Jobs not assigned yet: for each worker, and under None for the first free one."""
        self._queued = 0
        """Number of jobs in all queues."""
        self._absent: set[int] = set()
        """Absent workers; their jobs go to the others."""
        self._results: deque[JobResult] = deque()
        self._submitted = 0
        self._closed = False

    def submit(self, job: Any, worker: int | None = None, patience: float = 1.0) -> int:
        """Queue a job for one worker, or for the first free one. Return its number."""
        self._check_open()
        number = self._numbered(worker, job, patience)
        self._hand_out()
        return number

    def submit_each(self, jobs: Sequence[Any], patience: float = 1.0) -> list[int]:
        """Queue a job for each of the first workers, which begin together. Return their numbers."""
        self._check_open()
        numbers = [self._numbered(worker, job, patience) for worker, job in enumerate(jobs)]
        self._hand_out()
        return numbers

    def collect(self, timeout: float | None = None) -> JobResult | None:
        """Return the next result, in any order; None where `timeout` seconds pass without one, or no job is pending.

        Raises:
            RunError: a task failed, a worker did not answer in time, or too many were lost. Then all workers end.
        """
        self._check_open()
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self._results:
            self._hand_out()
            if not self._queued and not self._at_work():
                return None
            if not self._receive(deadline) and deadline is not None and time.monotonic() >= deadline:
                return None
        result = self._results.popleft()
        self._hand_out()
        return result

    def state(self) -> dict[str, Any]:
        """Return an empty state: the work of processes cannot be repeated exactly."""
        return varies({}, OrEmpty({"jobs": self._jobs_form, "submitted": Count()}))

    def load_state(self, state: dict[str, Any]) -> None:
        """Queue the pending jobs of another kind of pool's `state()`; the tasks start anew."""
        for number, worker, job in state.get("jobs", []):
            self._queue(number, worker if worker in self._queues else None, job)
        self._submitted = max([state.get("submitted", 0), *(job[0] + 1 for job in state.get("jobs", []))])

    @abstractmethod
    def _hand_out(self) -> None:
        """Assign jobs to the workers that have fewer than `AHEAD`, one each in turn."""

    @abstractmethod
    def _receive(self, deadline: float | None) -> bool:
        """Wait for a worker's message or death and handle it; return False where there was none."""

    @abstractmethod
    def _at_work(self) -> bool:
        """Return True when a worker has jobs."""

    @abstractmethod
    def _end_at_once(self) -> None:
        """Close the pool without waiting for workers."""

    def _take(self, worker: int, largest: int | None = None) -> Job | None:
        """Remove and return the next job for a worker; None if there is none or it exceeds `largest` bytes."""
        queue = self._queues[worker] or self._queues[None]
        if not queue or (largest is not None and len(queue[0].content) > largest):
            return None
        self._queued -= 1
        return queue.popleft()

    def _give_back(self, jobs: Iterable[Job]) -> None:
        """Put the jobs of a lost worker at the front of the queues."""
        for job in reversed(list(jobs)):
            self._queue_of(job.worker).appendleft(job)
            self._queued += 1

    def _pass_on(self, worker: int) -> None:
        """Give a worker's jobs to the others, now and until it is no longer absent."""
        self._absent.add(worker)
        self._queues[None].extendleft(reversed(self._queues[worker]))
        self._queues[worker].clear()

    def _numbered(self, worker: int | None, job: Any, patience: float) -> int:
        """Queue a new job; return its number."""
        number = self._submitted
        self._submitted += 1
        self._queue(number, worker, job, patience)
        return number

    def _queue(self, number: int, worker: int | None, job: Any, patience: float = 1.0) -> None:
        self._queue_of(worker).append(Job(number, worker, pickle.dumps(job, protocol=5), patience))
        self._queued += 1

    def _queue_of(self, worker: int | None) -> deque[Job]:
        return self._queues[None if worker in self._absent else worker]

    def _task_failure(self, worker: int, kind: type[Exception] | None, message: str, text: str) -> Exception:
        """Return the error for a failed task; `kind`: its type where that is one of Maze's; `text`: its traceback."""
        # A message of Maze names what failed, such as an environment; that of a learner could be of any.
        whose = f"{self._title(worker)} failed: " if kind is None or self._learners else ""
        failure = self._failure(whose + message, f"In the worker process:\n{text}")
        # The user's own mistakes need no traceback.
        return failure if kind is None or issubclass(kind, RunError) else kind(message)

    def _title(self, worker: int) -> str:
        """Return a worker's name in messages. The first learner is this process."""
        return f"learner {worker + 1}" if self._learners else self._named(worker)

    def _failure(self, message: str, note: str = "") -> RunError:
        self._end_at_once()
        failure = RunError(message)
        if note:
            failure.add_note(note.rstrip())
        return failure

    def _check_open(self) -> None:
        if self._closed:
            raise RunError("the workers are closed")
