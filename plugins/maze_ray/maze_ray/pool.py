"""Workers on a Ray cluster: the pool of the runner `ray`."""

from __future__ import annotations

import pickle
import time
import warnings
from typing import TYPE_CHECKING, Any

from maze_local.processes import SPOILT
from maze_local.queued_pool import QueuedPool

from maze_core import JobResult, Task
from maze_core.base.terminal_text import counted
from maze_core.collect.pools.workers import Arrays
from maze_ray.actors import Actors
from maze_ray.lines import Lines
from maze_ray.losses import node_has_died, reason_of
from maze_ray.member import Member, Room
from maze_ray.parameters import Parameters
from maze_ray.session import Session, import_ray
from maze_ray.socket_channel import Arrivals, NoMessageError
from maze_ray.stations import Gate
from maze_ray.ways import Calls, OwnLine
from maze_ray.worker import packed_task, unpack, versions

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from maze_ray.config import RayConfig

_PATIENCE = 2.0
"""Seconds idle workers get to close their tasks."""
_NOTICE = 15.0
"""Seconds without any worker after which the user is told."""


class RayPool(QueuedPool):
    """Runs jobs in Ray actors; each goes to the first free worker unless the job names one.

    It starts as soon as one worker is ready; the others join when they find room. A lost worker is restarted wherever
    there is room, and its jobs are repeated; jobs for a missing worker go to the others. A job uses the parameters
    shared last when it was sent to its worker, at most one job ahead.

    The work for an answer does not depend on the number of workers: answers announce themselves, and workers with room
    are kept by their load. Each version of the parameters goes to a worker at most once.

    Args:
        task: is sent to each worker.
        count: number of workers.
        config: the runner's configuration.
        cpus: CPUs that each worker occupies.
        gpus: GPUs that each worker occupies.
        learners: the workers are further learners: each is needed, and the loss of one ends the run.
        lines: the jobs of workers on this node go over lines of their own, which are faster than calls of Ray; those of
            other nodes go through a station on each, if there are enough workers.

    Raises:
        ConfigError: there is no cluster, the task cannot be sent to its nodes, or the task's `setup` raises it.
        RunError: a worker failed during its setup, with its traceback, or no worker found room.
    """

    def __init__(
        self,
        task: Task,
        count: int,
        config: RayConfig,
        cpus: float,
        *,
        gpus: float = 0.0,
        learners: bool = False,
        lines: bool = False,
    ) -> None:
        super().__init__(task, count, config.job_timeout, learners)
        self._config = config
        self._complete = False
        self._members: dict[int, Member] = {}
        self._asked: dict[Any, tuple[Member | Gate, Future[Any]]] = {}
        """The worker or station that owes an answer, by Ray's reference to the answer."""
        self._arrived = Arrivals()
        """References to answers that have arrived, or whose worker was lost; Ray's thread puts them here."""
        self._room = Room()
        self._changed: list[int] = []
        """Workers that may take a job of their own."""
        self._open = 0
        """Number of jobs at the workers."""
        self._next_look = 0.0
        """Time of the next look at all deadlines, which takes longer the more workers there are."""
        self._ray = import_ray()
        self._session = Session(config)
        self._actors = self._new_actors(*((0.0, 0.0) if self._session.is_local else (cpus, gpus)))
        self._lines = Lines(self._actors, self._arrived, self._expect, wanted=lines)
        try:
            self._task = self._ray.put(packed_task(task))
            self._shared = Parameters(self._ray)
            self._lines.start_stations(count)
            for number in range(count):
                self._start(number, time.monotonic() + config.start_timeout)
            notice = time.monotonic() + _NOTICE
            while not any(member.ready for member in self._members.values()):
                self._receive(None)
                if time.monotonic() > notice:
                    notice += config.start_timeout  # no second one: then it is an error
                    _warn(f"no worker has started for {_NOTICE:g} seconds; {self._actors.room()}")
            self._complete = True
        except BaseException:
            self._end_at_once()
            raise

    @property
    def pids(self) -> list[int]:
        """Process ids of the running workers, each on its node, for monitoring."""
        return [member.process for member in self._members.values() if member.ready]

    @property
    def session(self) -> Session:
        """The pool's share of the connection to Ray."""
        return self._session

    def share(self, arrays: Arrays) -> int:
        """Share parameters with all jobs sent from now on. Returns the version."""
        self._check_open()
        if not all(isinstance(member.way, OwnLine) for member in self._members.values()):
            self._session.check_store()
        self._shared = Parameters(self._ray, self._shared.version + 1, arrays, self._lines.wanted)
        return self._shared.version

    def close(self, patience: float = _PATIENCE) -> None:
        """End the workers, idle ones after closing their tasks; the last pool also ends a Ray started by Maze."""
        if self._closed:
            return
        self._closed = True
        members, self._members, self._asked = list(self._members.values()), {}, {}
        self._room = Room()
        try:
            idle = [member for member in members if member.ready and not member.calls]
            if idle and patience and not self._session.connection.lost:
                for member in idle:
                    member.way.dismiss()
                self._lines.send_off()
                closed = [member.actor.close.remote() for member in idle]
                self._ray.wait(closed, num_returns=len(closed), timeout=patience)
            for member in members:
                self._kill(member)
        finally:
            self._arrived.close()
            self._lines.close()
            self._session.close()

    # Sending jobs

    def _start(self, number: int, deadline: float, late: bool = False) -> None:
        actor = self._actors.worker(at_home=self._complete and not late)
        way = Calls(actor, lambda answer: self._expect(member, answer))
        member = self._members[number] = Member(number, self._title(number), actor, way, deadline, late=late)
        arguments = number, self._task, versions(), self._actors.home, self._lines.address
        member.calls[self._expect(member, actor.setup.remote(*arguments))] = None

    def _new_actors(self, cpus: float, gpus: float) -> Actors:
        return Actors(self._ray, cpus, gpus)

    def _expect(self, owner: Member | Gate, answer: Any) -> Any:
        """Listen for the answer to a call of Ray; return its reference."""
        future = answer.future()
        self._asked[answer] = owner, future
        future.add_done_callback(lambda _: self._arrived.put(answer))
        return answer

    def _queue(self, number: int, worker: int | None, job: Any, patience: float = 1.0) -> None:
        super()._queue(number, worker, job, patience)
        if worker is not None:
            self._changed.append(worker)

    def _hand_out(self) -> None:
        changed, self._changed = self._changed, []
        for number in changed:
            member = self._members.get(number)
            while member is not None and member.has_room and self._queues[number]:
                self._give(member)
        while self._queues[None] and (free := self._room.first()) is not None:
            self._give(self._members[free])
        self._lines.ring()

    def _give(self, member: Member) -> None:
        """Send a worker its next job."""
        job = self._take(member.number)
        if job is None:
            return
        self._place(member, lambda: member.calls.update({member.way.send(job, self._shared): job}))
        self._open += 1
        if len(member.calls) == 1:
            member.expect_answer(self.job_timeout)

    def _place(self, member: Member, change: Callable[[], object]) -> None:
        """Change a worker's jobs, or whether it is ready, and keep the order by load."""
        self._room.remove(member.number)
        change()
        if self._members.get(member.number) is member:
            self._room.enter(member)

    def _at_work(self) -> bool:
        return self._open > 0

    # Receiving

    def _receive(self, deadline: float | None) -> bool:
        """Wait for answers and process those that are there; return False if the deadline, or a second, passed."""
        self._lines.send_off()
        now = time.monotonic()
        ends = [now + 1.0] + ([] if deadline is None else [deadline])
        answers, members = self._arrived.get(max(min(ends) - now, 0.0))
        # Messages on lines need no store, and looking disturbs the node.
        (self._session.check if members and not answers else self._session.check_store)()
        for member in members:
            self._listen(member)
        for answer in answers:
            if answer in self._asked:  # otherwise its worker was lost in the meantime
                self._hear(answer)
        if time.monotonic() >= self._next_look:
            self._check_deadlines()
            self._next_look = time.monotonic() + 1.0
        return bool(answers or members)

    def _listen(self, member: Member) -> None:
        """Take a message from a worker's line; if the line broke, end the worker, which Ray then reports as lost."""
        if not isinstance(member.way, OwnLine):
            return
        try:
            number, *told = member.way.receive()
        except (EOFError, OSError):
            self._kill(member)
            return
        except NoMessageError as exc:
            raise self._failure(f"{member.title} {SPOILT}") from exc
        self._take_message(member, number, told)

    def _hear(self, answer: Any) -> None:
        """Take the answer to a call of Ray."""
        owner, future = self._asked[answer]
        if isinstance(owner, Gate):
            self._hear_station(owner, answer, future)
            return
        member, errors = owner, self._ray.exceptions
        try:
            result = future.result()
        except (errors.RayTaskError, errors.RuntimeEnvSetupError) as exc:
            text = str(exc).strip().splitlines()
            raise self._failure(f"{member.title} cannot work on its node: {text[-1]}", "\n".join(text)) from None
        except errors.RayError as exc:
            self._lose(member, exc)
            return
        if answer is member.service:
            self._lose(member, RuntimeError("its line broke"))
            return
        del self._asked[answer]
        self._take_answer(member, answer, *result)

    def _hear_station(self, gate: Gate, answer: Any, future: Future[Any]) -> None:
        """Take the answers that a station has gathered; if it was lost, end its workers, which end themselves, too."""
        del self._asked[answer]
        try:
            taken = future.result()
        except self._ray.exceptions.RayTaskError as exc:
            raise self._failure(f"the station of a node failed: {exc}") from None
        except self._ray.exceptions.RayError:
            for member in self._lines.lose(gate):
                self._kill(member)
            return
        gate.take()
        for member, content, arrays in gate.answers(taken):
            if content is None:
                raise self._failure(f"{member.title} {SPOILT}")
            number, *told = pickle.loads(content, buffers=arrays)  # noqa: S301 — from our own worker
            self._take_message(member, number, told)

    def _take_message(self, member: Member, number: int | None, told: list[Any]) -> None:
        """Take a message from a worker on a line."""
        if number is None:
            raise self._failure(f"to {member.title} this process {SPOILT}")
        self._take_answer(member, number, *told)

    def _take_answer(self, member: Member, call: Any, kind: str, *content: Any) -> None:
        job = member.calls[call]
        self._place(member, lambda: member.calls.pop(call))
        self._changed.append(member.number)
        member.expect_answer(self.job_timeout)
        if kind == "error":
            raise self._task_failure(member.number, *content)
        if job is None:
            begin = self._welcome if kind == "ready" else self._begin
            self._place(member, lambda: begin(member, *content))
            return
        self._open -= 1
        self._results.append(JobResult(job.number, member.number, unpack(*content)))

    def _welcome(self, member: Member, process: int, differences: str, node: str, calls: bool) -> None:
        """Note what a worker says that has set up its task; from another node, it calls the station there."""
        member.process, member.at_home = process, node == self._actors.home
        if differences:
            _warn(f"{differences}: results may differ")
        joins = self._lines.through_station(member, node)
        if joins is None:
            self._begin(member, calls)
            return
        member.joining, answer = joins
        member.calls[self._expect(member, answer)] = None

    def _begin(self, member: Member, on_line: bool) -> None:
        """Let a worker have jobs; `on_line`: it has called this process, or the station of its node."""
        member.ready, member.late = True, False
        self._absent.discard(member.number)
        joining, member.joining = member.joining, None
        if not on_line:
            if joining is not None:
                joining.close()
            return
        try:
            member.way = joining or self._lines.own(member)
        except OSError as exc:
            raise self._failure(f"{member.title} does not report on its socket: {exc}") from exc
        member.service = self._expect(member, member.actor.serve.remote())

    def _check_deadlines(self) -> None:
        now = time.monotonic()
        for member in list(self._members.values()):
            if not member.calls or member.late or member.deadline > now:
                continue
            if member.ready:
                limit = member.limit(self.job_timeout)
                raise self._failure(f"{member.title} did not answer within {limit:g} seconds")
            self._go_on_without(member)

    # Losing

    def _lose(self, member: Member, error: Exception) -> None:
        """Start a worker to replace a lost one; its unfinished jobs are repeated first."""
        self._forget(member)
        self._session.wait_for_head()
        cause = f"{member.title} was lost: {reason_of(error)}"
        deadline, late = member.deadline, member.late
        if member.ready:
            if self._learners:
                raise self._failure(cause)
            if self.restarts >= self._config.max_restarts:
                self._drop(member, f"{cause}; no further restart (runner.max_restarts is {self._config.max_restarts})")
                return
            self.restarts += 1
            # Where its node has died, who knows when there is room for another worker.
            late = any(each.ready for each in self._members.values() if each is not member)
            again = f"it is started again ({self.restarts} of at most {self._config.max_restarts} restarts)"
            _warn(f"{cause}; {again}{'; the others do its jobs until then' if late else ''}")
            deadline = time.monotonic() + self._config.start_timeout
        elif not node_has_died(error):
            if not self._complete:
                raise self._failure(f"{cause}\nIt was being set up.")
            if time.monotonic() > deadline:
                self._drop(member, f"{cause}; it could not be started again")
                return
        self._start(member.number, deadline, late)
        if late:
            self._pass_on(member.number)

    def _forget(self, member: Member) -> None:
        """End what remains of a worker and queue its jobs again."""
        self._kill(member)
        self._room.remove(member.number)
        for answer in (*member.calls, member.service):
            self._asked.pop(answer, None)
        lost = [job for job in member.calls.values() if job is not None]
        self._open -= len(lost)
        self._give_back(lost)

    def _drop(self, member: Member, cause: str) -> None:
        del self._members[member.number]
        if not self._members:
            raise self._failure(f"{cause}; no worker is left")
        _warn(f"{cause}; the run continues with {counted(len(self._members), 'worker')}")
        self._pass_on(member.number)

    def _go_on_without(self, member: Member) -> None:
        member.late = True
        waited = f"{member.title} did not find free CPUs and start within {self._config.start_timeout:g} seconds"
        if self._learners or all(each.late for each in self._members.values()):
            raise self._failure(
                f"{waited}; {self._actors.room()}\nNext: free some, or lower runner.cpus_per_worker, or start fewer "
                "workers; on slow machines raise runner.start_timeout."
            )
        _warn(f"{waited}; the run continues without it")
        self._pass_on(member.number)

    def _kill(self, member: Member) -> None:
        member.hang_up()
        if self._session.connection.lost:  # Ray would wait for the head
            member.kill_without_ray()
        else:
            self._actors.kill(member.actor)

    def _end_at_once(self) -> None:
        self.close(patience=0.0)


def _warn(text: str) -> None:
    warnings.warn(text, RuntimeWarning, stacklevel=2)
