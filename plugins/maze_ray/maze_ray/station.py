"""A station: the actor of a pool on another node. Workers there are on lines to it, and it alone talks to the driver.

So the driver sends a node one message for all its jobs, and gets one for all answers that are there: its work grows
with the nodes, not with the workers.
"""

from __future__ import annotations

import pickle
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from maze_ray.socket_channel import Arrivals, Door, NoMessageError, SocketChannel
from maze_ray.worker import begin_on_node

_SHARE, _LONGEST = 0.05, 0.05
"""For how long an answer may wait for others: as a share of the time its job took, and in seconds."""

Given = tuple[int, int, bytes | None]
"""A job for a worker: the worker's ticket, the job's number and its pickle; None: no further job will come."""
Answered = tuple[int, bytes | None, list[np.ndarray]]
"""An answer: the worker's ticket and the parts of its message; None: what the worker sent is no message."""


@dataclass(slots=True)
class Desk:
    """What the station knows of one worker."""

    ticket: int
    line: SocketChannel
    jobs: deque[tuple[int, bytes | None]] = field(default_factory=deque)
    """Jobs that wait until the worker has answered the one before."""
    began: float | None = None
    """Since when it has a job; None: it has none."""
    version: int = 0
    """The version of the parameters that it has."""


class Station:
    """The actor.

    Args:
        address: where the workers of this node call, as `Door` has it.
    """

    def __init__(self, address: str) -> None:
        begin_on_node()
        self._door, self._lines = Door(address), Arrivals()
        self._desks: dict[int, Desk] = {}
        """By ticket."""
        self._lost: set[int] = set()
        """Tickets of workers that were here."""
        self._answers: list[Answered] = []
        self._until = 0.0
        """When the first of these answers has waited enough."""
        self._failure: Exception | None = None
        self._given: list[tuple[int, list[Given]]] = []
        """Jobs whose parameters are not here yet, with the version of these."""
        self._changed = threading.Condition()
        self._version, self._parameters = 0, b""
        threading.Thread(target=self._listen, daemon=True).start()

    def give(self, version: int, parameters: Any, jobs: list[Given]) -> None:
        """Pass jobs on to the workers, with the parameters (as in `Sent`) where they are new here."""
        with self._changed, self._failures_told():
            if parameters is not None and version > self._version:
                packed = parameters if isinstance(parameters, bytes) else pickle.dumps(parameters, protocol=5)
                self._version, self._parameters = version, packed
            self._given.append((version, jobs))
            self._pass_on()
        self._door.ring()

    def take(self) -> list[Answered]:
        """Return the answers that are there, at least one: once all have answered, or the first has waited enough."""
        with self._changed:
            while not self._answers:
                if self._failure is not None:
                    raise self._failure
                self._changed.wait()
            while any(desk.began is not None for desk in self._desks.values()):
                if (left := self._until - time.monotonic()) <= 0 or not self._changed.wait(left):
                    break
            answers, self._answers = self._answers, []
        return answers

    def _pass_on(self) -> None:
        """Pass on all jobs whose parameters are here: large ones may come after a later call that has none."""
        early = []
        for version, jobs in self._given:
            if version > self._version:
                early.append((version, jobs))
                continue
            for ticket, number, content in jobs:
                desk = self._desk_of(ticket)
                if desk is not None:
                    desk.jobs.append((number, content))
                    self._send_next(desk)
        self._given = early

    @contextmanager
    def _failures_told(self) -> Iterator[None]:
        """Let `take` raise what happens here: nobody waits for the end of `give` or of the thread."""
        try:
            yield
        except Exception as exc:
            self._failure = exc
            self._changed.notify_all()
            raise

    def _desk_of(self, ticket: int) -> Desk | None:
        """Return the desk of a worker that has called; None if it is lost, as Ray reports."""
        if ticket not in self._desks and ticket not in self._lost:
            desk = self._desks[ticket] = Desk(ticket, self._door.admit(ticket))
            self._lines.watch(desk.line, desk)
        return self._desks.get(ticket)

    def _send_next(self, desk: Desk) -> None:
        """Send a worker without a job its next one; it reads when the bell rings."""
        if desk.began is not None or not desk.jobs:
            return
        number, content = desk.jobs.popleft()
        message = None
        if content is not None:
            parameters = None if desk.version == self._version else self._parameters
            message = number, content, self._version, parameters
            desk.began, desk.version = time.monotonic(), self._version
        with suppress(OSError):  # it is lost, as its line will say
            self._door.tell(desk.line, message)

    def _listen(self) -> None:
        """Collect answers, and send those who answered their next job, whatever the driver does meanwhile."""
        while True:
            _, desks = self._lines.get(None)
            with self._changed, self._failures_told():
                for desk in desks:
                    self._hear(desk)
                self._changed.notify_all()
            self._door.ring()

    def _hear(self, desk: Desk) -> None:
        try:
            content, *arrays = desk.line.receive_parts()
        except NoMessageError:
            self._answers.append((desk.ticket, None, []))
        except (EOFError, OSError):  # as Ray will report
            self._lost.add(desk.ticket)
            del self._desks[desk.ticket]
            self._lines.forget(desk.line)
            desk.line.close()
            return
        else:
            if not self._answers:
                now = time.monotonic()
                self._until = now + min(_SHARE * (now - (desk.began or now)), _LONGEST)
            self._answers.append((desk.ticket, bytes(content), [np.frombuffer(array, np.uint8) for array in arrays]))
        desk.began = None
        self._send_next(desk)
