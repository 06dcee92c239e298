"""What the pool knows of its workers."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maze_local.queued_pool import AHEAD

if TYPE_CHECKING:
    from maze_local.queued_pool import Job

    from maze_ray.ways import Way


@dataclass(slots=True)
class Member:
    """One worker: its actor and its open calls."""

    number: int
    name: str
    actor: Any
    way: Way
    """The way of its jobs."""
    deadline: float
    """Time by which it must return its next answer."""
    calls: dict[Any, Job | None] = field(default_factory=dict)
    """Open jobs in the order of the calls, by their keys; None: it is being set up."""
    ready: bool = False
    late: bool = False
    """True if it found no room in time; it may still join later."""
    process: int = 0
    at_home: bool = False
    """True if it is on the driver's node."""
    joining: Way | None = None
    """Its way through a station, while it calls there."""
    service: Any = None
    """Ray's reference to the end of the call that serves its line, if it has one."""

    @property
    def has_room(self) -> bool:
        """True if it may have another job."""
        return self.ready and len(self.calls) < self.way.most

    @property
    def title(self) -> str:
        """The worker's name in messages."""
        return self.name + (f" (process {self.process})" if self.process else "")

    def limit(self, timeout: float) -> float:
        """Return the seconds within which its first job must be done."""
        job = next(iter(self.calls.values()), None)
        return timeout * (1.0 if job is None else job.patience)

    def expect_answer(self, timeout: float) -> None:
        """Set the time by which it must answer."""
        self.deadline = time.monotonic() + self.limit(timeout)

    def hang_up(self) -> None:
        """Close its ways."""
        for way in (self.way, self.joining):
            if way is not None:
                way.close()

    def kill_without_ray(self) -> None:
        """End its process: on the driver's node Ray names it in its command line; on others it is asked to leave."""
        if not self.at_home:
            with suppress(Exception):  # calls go to the worker itself, if it still runs
                self.actor.leave.remote()
            return
        with suppress(OSError):
            if Path(f"/proc/{self.process}/cmdline").read_bytes().startswith(b"ray::"):
                os.kill(self.process, signal.SIGKILL)


class Room:
    """The numbers of the workers that may have another job, by the jobs they have. Looking takes no time."""

    def __init__(self) -> None:
        self._by_load: tuple[dict[int, None], ...] = tuple({} for _ in range(AHEAD))
        """Dicts keep the order in which workers came."""

    def enter(self, member: Member) -> None:
        """Add a worker, if it has room."""
        if member.has_room:
            self._by_load[len(member.calls)][member.number] = None

    def remove(self, number: int) -> None:
        """Forget a worker."""
        for numbers in self._by_load:
            numbers.pop(number, None)

    def first(self) -> int | None:
        """Return the worker with the fewest jobs that waits longest; None: nobody has room."""
        return next((next(iter(numbers)) for numbers in self._by_load if numbers), None)
