"""Workers in processes of this machine: the pool of the runner `local`."""

from __future__ import annotations

import pickle
import selectors
import time
import warnings
import weakref
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from maze_core import ConfigError, JobResult, Task
from maze_core.collect.pools.workers import Arrays
from maze_local import process_worker
from maze_local.processes import (
    LARGEST_MESSAGE,
    LONGEST_WAIT,
    SPOILT,
    StartMethod,
    end_processes,
    how_it_ended,
    is_spoilt,
    kill_at_exit,
    limit_silence,
    worker_context,
    worker_variables,
)
from maze_local.queued_pool import AHEAD, Job, QueuedPool
from maze_local.result_transfer import Unpacker
from maze_local.shared_parameters import SharedParameters
from maze_local.wakeup import LONG, Wakeup, has_wakeups

_PATIENCE = 2.0
"""Seconds that idle workers have to close their tasks."""
_STARTING = (
    "It was being set up. A script that starts worker processes must do so below `if __name__ == '__main__':`; "
    "otherwise each worker runs the whole script again."
)


@dataclass(slots=True)
class _Member:
    """One worker process, the driver's end of its pipe, and its jobs."""

    number: int
    name: str
    process: Any
    pipe: Connection
    ready: bool = False
    jobs: deque[Job] = field(default_factory=deque)
    called: bool = False
    """True: it owes the answer to a call."""
    limit: float = 0.0
    """Seconds in which it must answer, until `deadline`."""
    deadline: float = 0.0
    unpacker: Unpacker = field(default_factory=Unpacker)

    @property
    def busy(self) -> bool:
        """True while an answer is expected."""
        return bool(self.jobs) or self.called or not self.ready

    def expect(self, limit: float) -> None:
        """Expect an answer within so many seconds."""
        self.limit, self.deadline = limit, time.monotonic() + limit

    @property
    def title(self) -> str:
        """The worker's name in messages."""
        return f"{self.name} (process {self.process.pid})"


class ProcessPool(QueuedPool):
    """Runs jobs in worker processes: each on the first free worker, unless it was submitted for a certain one.

    Args:
        task: sent to each worker.
        count: number of worker processes.
        job_timeout: time limit of each job, in seconds.
        max_restarts: how often in all a worker that died is replaced.
        start_method: how the processes are started.
        setup_timeout: time limit of the set-up; None: that of a job.
        learners: the workers are further learners, none of which is replaced.

    Raises:
        ConfigError: the task cannot be sent to another process, the machine has no room for so many, or the task's
            `setup` raised this.
        RunError: the set-up of a worker failed, with its traceback.
    """

    def __init__(
        self,
        task: Task,
        count: int,
        job_timeout: float = 300.0,
        max_restarts: int = 10,
        start_method: StartMethod = "forkserver",
        setup_timeout: float | None = None,
        learners: bool = False,
    ) -> None:
        super().__init__(task, count, job_timeout, learners)
        self._task = _pack(task)
        self._context = worker_context(start_method)
        self._setup_timeout = setup_timeout or job_timeout
        self._max_restarts = max_restarts
        self._parameters: SharedParameters | None = None
        self._complete = False
        self._members: list[_Member] = []
        self._called: dict[int, Any] = {}
        """What the last call returned, by worker."""
        self._bell: Wakeup | None = None
        self._unheard = False
        """True: there are messages for which the bell has not rung."""
        self._channels = selectors.DefaultSelector()
        """The pipe and the end of each worker's process, with its number and whether it is the end."""
        try:
            # A single worker is woken by its message, which takes one call of the system instead of several.
            self._bell = Wakeup() if count > 1 and has_wakeups() else None
            for number in range(count):
                self._members.append(self._start(number))
            while not all(member.ready for member in self._members):
                self._receive(None)
            self._complete = True
        except OSError as exc:
            self.close()
            raise ConfigError(f"cannot start {count} worker processes: {exc}", "runner", "Start fewer.") from exc
        except BaseException:
            self.close()
            raise

    @property
    def pids(self) -> list[int]:
        """The workers' process ids, for monitoring."""
        return [member.process.pid for member in self._members]

    def share(self, arrays: Arrays) -> int:
        """Copy and publish parameters for the jobs that begin from now on. Return the version.

        Raises:
            RunError: shared memory has no room for them.
            ValueError: they differ in name, shape or type from those that were shared first.
        """
        self._check_open()
        if self._parameters is None:
            self._parameters = parameters = SharedParameters(arrays)
            self._finalizer = weakref.finalize(self, parameters.close)
            for member in self._members:
                if member.ready:
                    self._introduce(member)
            self._ring()
        return self._parameters.publish(arrays)

    def call_each(self, number: int) -> list[Any]:
        """Let all workers run `call(number)` of their task at once; return the answers, None of a worker that was lost.

        For short calls faster than jobs: nothing is queued, nor pickled where the answer is an empty tuple. Results of
        jobs that nobody has collected are dropped.
        """
        self._check_open()
        while any(member.busy for member in self._members):  # with what was given up, such as after Ctrl-C
            self._receive(None)
        self._results.clear()
        self._called.clear()
        message = process_worker.CALL + number.to_bytes(8, "little")
        for member in self._members:
            member.called = True
            member.expect(self.job_timeout)
            with suppress(OSError):  # if it died, `_receive` notices
                member.pipe.send_bytes(message)
        self._unheard = True
        while any(member.called for member in self._members):
            self._receive(None)
        return [self._called.get(member.number) for member in self._members]

    def close(self) -> None:
        """End the workers, busy ones immediately; safe to call twice."""
        if self._closed:
            return
        self._closed = True
        idle = not any(member.busy for member in self._members)
        for member in self._members:
            self._send(member, ("close",))
        self._ring()
        end_processes([member.process for member in self._members], _PATIENCE if idle else 0.0, stay=True)
        self._channels.close()
        if self._bell is not None:
            self._bell.close()
        for member in self._members:
            member.pipe.close()
            member.unpacker.close()
        self._members = []
        if self._parameters is not None:
            self._finalizer()

    # Giving

    def _start(self, number: int) -> _Member:
        with worker_variables():
            ours, theirs = self._context.Pipe()
            arguments = (theirs, self._bell, self._task, number)
            process = self._context.Process(target=process_worker.main, args=arguments, daemon=True)
            process.start()
            kill_at_exit(process)
            limit_silence(ours)
            theirs.close()  # so that the driver sees end of file when the worker dies
        self._channels.register(ours, selectors.EVENT_READ, (number, False))
        self._channels.register(process.sentinel, selectors.EVENT_READ, (number, True))
        member = _Member(number, self._title(number), process, ours)
        member.expect(self._setup_timeout)
        return member

    def _introduce(self, member: _Member) -> None:
        """Tell a worker where the parameters are."""
        if self._parameters is not None:
            self._send(member, ("parameters", self._parameters.specs, self._parameters.name))

    def _hand_out(self) -> None:
        for load in range(AHEAD if self._queued else 0):
            for member in self._members:
                if member.ready and len(member.jobs) == load:
                    self._give(member)
        self._ring()

    def _give(self, member: _Member) -> None:
        # A worker that is sending a result would not read a long one (deadlock).
        job = self._take(member.number, largest=LONG if member.jobs else None)
        if job is None:
            return
        member.jobs.append(job)
        if len(member.jobs) == 1:
            self._await(member)
        self._send(member, ("job", job.number, job.content, member.unpacker.emptied()))

    def _await(self, member: _Member) -> None:
        """Set the time by which a worker must answer its first job."""
        if member.jobs:
            member.expect(self.job_timeout * member.jobs[0].patience)

    def _at_work(self) -> bool:
        return any(member.jobs for member in self._members)

    def _send(self, member: _Member, message: tuple[Any, ...]) -> None:
        """Write a message, for which `_ring` has to follow."""
        content = pickle.dumps(message, protocol=5)
        with suppress(OSError):  # if it died, `_receive` notices, and its jobs are reassigned
            self._unheard = True
            if len(content) > LONG:
                member.pipe.send_bytes(process_worker.LONG_FOLLOWS)
                self._ring()
            member.pipe.send_bytes(content)

    def _ring(self) -> None:
        """Let the workers read their messages."""
        if self._unheard and self._bell is not None:
            self._bell.ring()
        self._unheard = False

    # Receiving

    def _receive(self, deadline: float | None) -> bool:
        """Wait for messages and deaths and handle them; return False where the deadline passed first."""
        self._ring()
        ends = [member.deadline for member in self._members if member.busy]
        if deadline is not None:
            ends.append(deadline)
        rest = max(min(ends) - time.monotonic(), 0.0) if ends else None
        ready = self._channels.select(None if rest is None else min(rest, LONGEST_WAIT))
        over: dict[int, bool] = {}
        for key, _ in ready:
            number, is_end = key.data
            over[number] = over.get(number, False) or is_end
        for number, is_over in over.items():
            self._listen(self._members[number], is_over)
        if ready:
            return True
        now = time.monotonic()
        for member in self._members:
            if member.busy and member.deadline <= now:
                raise self._failure(f"{member.title} did not answer within {member.limit:g} seconds")
        return False

    def _listen(self, member: _Member, over: bool) -> None:
        """Handle a message; of a worker whose process is over, handle all that are left and replace it."""
        try:
            while not over or member.pipe.poll():
                self._hear(member, *self._message(member))
                self._await(member)
                if not over:
                    return
        except (EOFError, OSError):
            end_processes([member.process], _PATIENCE, stay=True)
        self._replace(member)

    def _message(self, member: _Member) -> tuple[Any, ...]:
        """Return the next message of a worker. Raises EOFError or OSError where it died, RunError for no message."""
        try:
            message = member.pipe.recv_bytes(LARGEST_MESSAGE)
            if message == process_worker.DONE:
                return "called", ()
            kind, *content = pickle.loads(message)  # noqa: S301 — from a process of ours
            if kind == "result":
                number, parcel = content
                content = [number, member.unpacker.unpack(parcel)]
        except Exception as exc:
            if not is_spoilt(exc):
                raise
            raise self._failure(f"{member.title} {SPOILT}") from exc
        return kind, *content

    def _hear(self, member: _Member, kind: str, *content: Any) -> None:
        if kind == "ready":
            member.ready = True
            self._introduce(member)
        elif kind == "result":
            number, value = content
            member.jobs.popleft()
            self._results.append(JobResult(number, member.number, value))
        elif kind == "called":
            member.called = False
            (self._called[member.number],) = content
        else:
            raise self._task_failure(member.number, *content)

    def _replace(self, member: _Member) -> None:
        """Replace a worker that died by a new process; its unfinished jobs come first."""
        cause = f"{member.title} died{how_it_ended(member.process.exitcode)}"
        if not self._complete:
            raise self._failure(f"{cause}\n{_STARTING}")
        if self._learners:
            raise self._failure(cause)
        if self.restarts >= self._max_restarts:
            raise self._failure(f"{cause}; no further restart (runner.max_restarts is {self._max_restarts})")
        self.restarts += 1
        warnings.warn(
            f"{cause}; it is started again ({self.restarts} of at most {self._max_restarts} restarts)",
            RuntimeWarning,
            stacklevel=4,
        )
        self._give_back(member.jobs)
        for channel in (member.pipe, member.process.sentinel):
            self._channels.unregister(channel)
        member.pipe.close()
        member.unpacker.close()
        try:
            self._members[member.number] = self._start(member.number)
        except OSError as exc:
            raise self._failure(f"{cause}; it cannot be started again: {exc}") from exc

    def _end_at_once(self) -> None:
        self.close()


def _pack(task: Task) -> bytes:
    try:
        # Not multiprocessing's pickler: with torch it can send tensors only once, and a restart sends them again.
        return pickle.dumps(task, protocol=5)
    except (pickle.PicklingError, AttributeError, TypeError) as exc:
        raise process_worker.not_portable(exc) from exc
