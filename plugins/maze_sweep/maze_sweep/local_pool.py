"""Executes the runs of a sweep in processes on this machine."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from maze_local.processes import (
    StartMethod,
    begin_worker,
    end_processes,
    how_it_ended,
    worker_context,
    worker_variables,
)

from maze_core import PluginConfig
from maze_sweep.pool import JobEnd, Outcome, SweepJob


@dataclass(slots=True)
class _Running:
    process: Any
    answer: Connection
    interrupted: bool = False


def local_pool(config: PluginConfig, jobs: int | None) -> LocalSweepPool:
    """Return a pool that runs each job in its own process on this machine, by default one per core.

    Args:
        config: the parameters of the runner `local`.
        jobs: runs in parallel.
    """
    from maze_local.runner import LocalRunner

    runner = LocalRunner(config)
    return LocalSweepPool(jobs or runner.default_workers, runner.config.start_method)


class LocalSweepPool:
    """A `SweepPool` with one process per job, in its own process group, so that Ctrl-C reaches only the sweep."""

    def __init__(self, size: int, start_method: StartMethod = "forkserver") -> None:
        self.size = size
        self._context = worker_context(start_method)
        self._running: dict[str, _Running] = {}

    @property
    def pids(self) -> dict[str, int]:
        """The process ids of the jobs that run, by name, for monitoring."""
        return {name: each.process.pid for name, each in self._running.items()}

    def start(self, job: SweepJob) -> None:
        """Start a job in a new process."""
        ours, theirs = self._context.Pipe(duplex=False)
        process = self._context.Process(target=_work, args=(job, theirs), name=job.name)
        with worker_variables():
            process.start()
        theirs.close()
        self._running[job.name] = _Running(process, ours)

    def ended(self, timeout: float) -> list[JobEnd]:
        """Return the jobs whose processes have ended."""
        wait([each.process.sentinel for each in self._running.values()], timeout)
        gone = [name for name, each in self._running.items() if not each.process.is_alive()]
        return [_ending(name, self._running.pop(name)) for name in gone]

    def interrupt(self, name: str) -> None:
        """Send SIGTERM, once: a second one would not wait for the checkpoint."""
        each = self._running.get(name)
        if each is not None and not each.interrupted:
            each.interrupted = True
            each.process.terminate()

    def close(self) -> None:
        """Kill running jobs."""
        for each in self._running.values():
            each.process.kill()
        end_processes([each.process for each in self._running.values()], patience=2.0)
        self._running.clear()


def _work(job: SweepJob, answer: Connection) -> None:
    """Execute a job in the new process and send its end."""
    from maze_sweep.execute import execute

    with contextlib.suppress(OSError):
        os.setsid()
    begin_worker()
    answer.send(execute(job))


def _ending(name: str, each: _Running) -> JobEnd:
    each.process.join()
    with contextlib.suppress(EOFError, OSError), each.answer:
        if each.answer.poll():
            end: JobEnd = each.answer.recv()
            return end
    if each.interrupted:
        outcome: Outcome = "interrupted"
        return JobEnd(name, outcome, "interrupted before it returned a result")
    return JobEnd(name, "killed", f"its process died{how_it_ended(each.process.exitcode)}")
