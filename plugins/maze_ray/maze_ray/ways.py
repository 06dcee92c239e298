"""Three ways of a job to its worker: a call of Ray, a line on the driver's node, and the station of another node."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from maze_local.queued_pool import AHEAD

if TYPE_CHECKING:
    from collections.abc import Callable

    from maze_local.queued_pool import Job

    from maze_ray.member import Member
    from maze_ray.parameters import Parameters
    from maze_ray.socket_channel import Arrivals, Door
    from maze_ray.stations import Gate


class Way(Protocol):
    """How a worker gets its jobs."""

    most: int
    """The number of jobs it may have at a time."""

    def send(self, job: Job, parameters: Parameters) -> Any:
        """Send a job. Return the key by which its answer is known."""

    def dismiss(self) -> None:
        """Say that no further job will come."""

    def close(self) -> None:
        """End this way; the worker is killed."""


class Calls:
    """Calls of Ray. `expect` listens for the answer to one, whose reference is the job's key."""

    most = AHEAD

    def __init__(self, actor: Any, expect: Callable[[Any], Any]) -> None:
        self._actor, self._expect, self._known = actor, expect, 0

    def send(self, job: Job, parameters: Parameters) -> Any:
        """Call the actor."""
        known, self._known = self._known, parameters.version
        return self._expect(self._actor.run.remote(job.content, *parameters.for_call(known)))

    def dismiss(self) -> None:
        """Do nothing: no call waits."""

    def close(self) -> None:
        """Do nothing."""


class OwnLine:
    """A line to a worker on this node that has called. It reads when the door rings; jobs are known by their numbers.

    Raises:
        OSError: it has not called.
    """

    most = 1
    """If both ends wrote much at a time, neither would read."""

    def __init__(self, member: Member, door: Door, arrived: Arrivals) -> None:
        self._channel = door.admit(member.number)
        self._door, self._arrived, self._known = door, arrived, 0
        arrived.watch(self._channel, member)

    def send(self, job: Job, parameters: Parameters) -> int:
        """Write the job."""
        known, self._known = self._known, parameters.version
        self._say((job.number, job.content, *parameters.for_line(known)))
        return job.number

    def dismiss(self) -> None:
        """Write the end."""
        self._say(None)

    def receive(self) -> Any:
        """Return the next message, as `SocketChannel.receive` does."""
        return self._channel.receive()

    def close(self) -> None:
        """Hang up."""
        with suppress(KeyError, ValueError):  # it may have broken before
            self._arrived.forget(self._channel)
        self._channel.close()

    def _say(self, message: Any) -> None:
        with suppress(OSError):  # Ray reports the loss
            self._door.tell(self._channel, message)


class StationLine:
    """A line from the station of the worker's node to it. Jobs are known by their numbers."""

    most = AHEAD

    def __init__(self, gate: Gate, ticket: int) -> None:
        self._gate, self._ticket = gate, ticket

    def send(self, job: Job, parameters: Parameters) -> int:
        """Put the job among those that the station gets next; it gets the parameters with them."""
        self._gate.add((self._ticket, job.number, job.content), parameters)
        return job.number

    def dismiss(self) -> None:
        """Put the end there."""
        self._gate.add((self._ticket, 0, None))

    def close(self) -> None:
        """Expect nothing from the worker any more."""
        self._gate.forget(self._ticket)
