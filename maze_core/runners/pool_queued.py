"""What pools have in common whose workers are elsewhere: jobs wait in queues, results come in any order."""

from __future__ import annotations

import pickle
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from maze_core.errors import RunError
from maze_core.runners.workers import JobResult

AHEAD = 2
"""Jobs a worker is given at a time, so that it need not wait for the driver between them."""


@dataclass(frozen=True, slots=True)
class Job:
    """A job on its way to a worker."""

    number: int
    worker: int | None
    """Who must do it; None: anybody."""
    content: bytes


class QueuedPool(ABC):
    """Keeps jobs and results of `count` workers; how to reach these is the subclass's business."""

    def __init__(self, count: int) -> None:
        self.num_workers = count
        self.restarts = 0
        self._queues: dict[int | None, deque[Job]] = {worker: deque() for worker in (None, *range(count))}
        """Jobs not given yet: for each worker, and under None for whichever is free first."""
        self._absent: set[int] = set()
        """Workers whose jobs go to the others."""
        self._results: deque[JobResult] = deque()
        self._submitted = 0
        self._closed = False

    def submit(self, job: Any, worker: int | None = None) -> int:
        """Queue a job, for one worker or for whichever is free first. Returns its number."""
        self._check_open()
        number = self._submitted
        self._submitted += 1
        self._queue(number, worker, job)
        self._hand_out()
        return number

    def collect(self, timeout: float | None = None) -> JobResult | None:
        """The next result, in any order; None where `timeout` seconds pass without one, or no job is pending.

        Raises:
            RunError: a task failed, a worker did not answer in time, or too many were lost. All workers are ended then.
        """
        self._check_open()
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self._results:
            self._hand_out()
            if not any(self._queues.values()) and not self._at_work():
                return None
            if not self._receive(deadline) and deadline is not None and time.monotonic() >= deadline:
                return None
        result = self._results.popleft()
        self._hand_out()
        return result

    def state(self) -> dict[str, Any]:
        """Nothing: what processes are doing right now cannot be repeated exactly."""
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        """Take up the pending jobs of a state that another kind of pool gave; the tasks begin afresh."""
        for number, worker, job in state.get("jobs", []):
            self._queue(number, worker if worker in self._queues else None, job)
        self._submitted = state.get("submitted", self._submitted)

    @abstractmethod
    def _hand_out(self) -> None:
        """Give jobs to the workers that have fewer than `AHEAD`, one each in turn."""

    @abstractmethod
    def _receive(self, deadline: float | None) -> bool:
        """Wait until something is heard of a worker and deal with it; False where nothing was."""

    @abstractmethod
    def _at_work(self) -> bool:
        """Whether a worker has jobs."""

    @abstractmethod
    def _end_at_once(self) -> None:
        """Close the pool without waiting for anybody."""

    def _take(self, worker: int, largest: int | None = None) -> Job | None:
        """The next job for a worker; None where there is none, or it has more than `largest` bytes."""
        queue = self._queues[worker] or self._queues[None]
        return None if not queue or (largest is not None and len(queue[0].content) > largest) else queue.popleft()

    def _give_back(self, jobs: Iterable[Job]) -> None:
        """Let the jobs of a worker that was lost come first."""
        for job in reversed(list(jobs)):
            self._queue_of(job.worker).appendleft(job)

    def _pass_on(self, worker: int) -> None:
        """Let the others have the jobs for a worker, now and until it is no longer absent."""
        self._absent.add(worker)
        self._queues[None].extendleft(reversed(self._queues[worker]))
        self._queues[worker].clear()

    def _queue(self, number: int, worker: int | None, job: Any) -> None:
        self._queue_of(worker).append(Job(number, worker, pickle.dumps(job, protocol=5)))

    def _queue_of(self, worker: int | None) -> deque[Job]:
        return self._queues[None if worker in self._absent else worker]

    def _task_failure(self, worker: int, kind: type[Exception] | None, message: str, text: str) -> Exception:
        """The error for a task that failed; `kind` is its own where that is one of Maze's, `text` its traceback."""
        failure = self._failure(f"worker {worker} failed: {message}", f"In the worker process:\n{text}")
        # The user's own mistakes need no traceback.
        return failure if kind is None or issubclass(kind, RunError) else kind(message)

    def _failure(self, message: str, note: str = "") -> RunError:
        self._end_at_once()
        failure = RunError(message)
        if note:
            failure.add_note(note.rstrip())
        return failure

    def _check_open(self) -> None:
        if self._closed:
            raise RunError("the workers are closed")
