"""What the pool knows of one of its workers."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maze_core.collect.pools.queued import AHEAD

if TYPE_CHECKING:
    from maze_core.collect.pools.queued import Job
    from maze_ray.socket_channel import SocketChannel


@dataclass(slots=True)
class Member:
    """One worker: its actor and its open calls."""

    number: int
    name: str
    actor: Any
    deadline: float
    """Time by which it must return its next answer."""
    calls: dict[Any, Job | None] = field(default_factory=dict)
    """Open jobs in the order of the calls, by Ray's reference to the answer, or by number on a line; None: setting up
    its task."""
    ready: bool = False
    late: bool = False
    """True if it found no room in time; it may still join later."""
    process: int = 0
    at_home: bool = False
    """True if it is on the driver's node."""
    line: SocketChannel | None = None
    """The way of its jobs; None: they are calls of Ray."""
    service: Any = None
    """Ray's reference to the end of the call that serves the line."""
    version: int = 0
    """The version of the parameters that it has."""

    @property
    def most(self) -> int:
        """The number of jobs it may have. On a line one: if both ends wrote much at a time, neither would read."""
        return AHEAD if self.line is None else 1

    @property
    def title(self) -> str:
        """The worker's name in messages."""
        return self.name + (f" (process {self.process})" if self.process else "")

    def kill_at_home(self) -> None:
        """Kill its process without Ray, if it is on the driver's node: Ray names it so in its command line."""
        with suppress(OSError):
            if self.at_home and Path(f"/proc/{self.process}/cmdline").read_bytes().startswith(b"ray::"):
                os.kill(self.process, signal.SIGKILL)
