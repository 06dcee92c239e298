"""Workers without processes, of which some are lost, for tests of what runs on workers collect."""

from __future__ import annotations

import copy

from maze_core.collect.pools.serial import SerialPool


class Forgetful(SerialPool):
    """Workers in this process. Every few jobs one is lost, and another one is set up in its place."""

    every = 0
    job_timeout = 60.0

    def __init__(self, task, count):
        super().__init__(task, count)
        self.job_timeout, self._answered, self._fresh = Forgetful.job_timeout, 0, task

    def collect(self, timeout=None):
        self._answered += 1
        if self.every and self._answered % self.every == 0:
            self._lose(self._jobs[0].worker)
        return super().collect(timeout)

    def lose_all(self):
        """Lose every worker now."""
        for worker in range(len(self._tasks)):
            self._lose(worker)

    def _lose(self, worker):
        self._tasks[worker].close()
        self._tasks[worker] = copy.copy(self._fresh)
        self._tasks[worker].setup(worker)
