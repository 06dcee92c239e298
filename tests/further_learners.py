"""Further learners in threads of this process: as with processes, without the seconds that these need to start."""

from __future__ import annotations

import pickle
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import torch

from maze_core.collect.pools.workers import JobResult, Shared


class ThreadPool:
    """Runs each worker's jobs in a thread of its own; tasks and jobs are pickled as for a process."""

    job_timeout = 60.0

    def __init__(self, task: Any, count: int) -> None:
        self.num_workers, self.restarts = count, 0
        self.tasks = [pickle.loads(pickle.dumps(task)) for _ in range(count)]
        with torch.random.fork_rng():  # a process has a random state of its own
            for worker, each in enumerate(self.tasks):
                each.setup(worker)
        self._threads = [ThreadPoolExecutor(1) for _ in range(count)]
        self._open: list[tuple[int, Future[Any]]] = []
        self.closed = False

    def submit(self, job: Any, worker: int | None = None, patience: float = 1.0) -> int:
        assert worker is not None
        content = pickle.dumps(job)
        answer = self._threads[worker].submit(lambda: self.tasks[worker].run(pickle.loads(content), Shared(0, {})))
        self._open.append((worker, answer))
        return 0

    def collect(self, timeout: float | None = None) -> JobResult | None:
        if not self._open:
            return None
        worker, answer = self._open.pop(0)
        return JobResult(0, worker, answer.result(self.job_timeout))

    def close(self) -> None:
        self.closed = True
        for task in self.tasks:
            task.close()
        for thread in self._threads:
            thread.shutdown()
