"""The contract of workers: tasks that answer jobs, and the pool that runs them wherever the runner decides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

Arrays = dict[str, np.ndarray]
"""Parameters by name, as they are shared with workers. Read-only where a worker receives them."""


@dataclass(frozen=True, slots=True)
class Shared:
    """What the learner shared last when a job began."""

    version: int
    """Number of `WorkerPool.share` calls before; 0: nothing was shared yet."""
    arrays: Arrays


class Task(Protocol):
    """What a worker does: a small picklable object, set up once in the worker, then asked job after job."""

    def setup(self, worker: int) -> None:
        """Build environments and networks. Runs in the worker; `worker` is its number from 0."""

    def run(self, job: Any, shared: Shared) -> Any:
        """Answer one job. Jobs and results are picklable; large arrays in a result are moved without copies."""

    def state(self) -> dict[str, Any]:
        """What `load_state` needs to go on bit-exactly (plain values and arrays); asked only on `dev`."""

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`, after `setup`."""

    def close(self) -> None:
        """Release what `setup` acquired."""


@dataclass(frozen=True, slots=True)
class JobResult:
    """The answer to one job."""

    job: int
    """What `submit` returned."""
    worker: int
    value: Any


class WorkerPool(Protocol):
    """Workers with the same task.

    On the runner `dev` jobs run in this process, one after the other, in the order of submission, when they are
    collected: the same calls give the same results. Elsewhere results come in any order.
    A worker that dies is restarted, set up again and given its unfinished jobs again, at most `max_restarts` times in
    all (the runner's configuration). Beyond that `collect` raises RunError, or a runner on several machines goes on
    with fewer workers. Where a task raises, `collect` raises RunError with the original traceback.
    """

    num_workers: int
    restarts: int
    """Workers restarted so far."""

    def share(self, arrays: Arrays) -> int:
        """Publish parameters; jobs handed out from now on see them. Returns the version. The arrays are copied."""

    def submit(self, job: Any, worker: int | None = None) -> int:
        """Queue a job, for one worker or for whichever is free first. Returns its number."""

    def collect(self, timeout: float | None = None) -> JobResult | None:
        """The next result; None where `timeout` seconds pass without one, or where no job is pending."""

    def state(self) -> dict[str, Any]:
        """States of the tasks and the pending jobs; empty where they cannot be repeated exactly, in other processes."""

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`; an empty one changes nothing."""

    def close(self) -> None:
        """End the workers; safe to call twice."""
