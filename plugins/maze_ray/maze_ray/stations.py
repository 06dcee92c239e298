"""The driver's side of the stations: what goes to each, and whose answers come from it."""

from __future__ import annotations

import secrets
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from maze_ray.socket_channel import new_address

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from maze_ray.actors import Actors
    from maze_ray.member import Member
    from maze_ray.parameters import Parameters, Sent
    from maze_ray.station import Answered, Given

STARTS_WITHIN = 30.0
"""Seconds; workers do without a station that does not."""
_SOON = 0.002
"""Seconds in which jobs gather that are given one by one."""


class Gate:
    """One station: the jobs it gets next, and the members that it serves.

    Args:
        actor: the station.
        address: where the workers of its node call.
        expect: listens for its answers.
        added: is called when there is a job to send.
    """

    def __init__(
        self, actor: Any, address: str, expect: Callable[[Gate, Any], Any], added: Callable[[], object]
    ) -> None:
        self.actor = actor
        self._give = actor.give.options(num_returns=0)
        self._lock = threading.Lock()
        self._address, self._expect, self._added = address, expect, added
        self._members: dict[int, Member] = {}
        self._jobs: list[Given] = []
        self._parameters: Parameters | None = None
        self._known = 0
        self.take()

    def admit(self, member: Member) -> tuple[int, Any]:
        """Return a ticket, and Ray's reference to the answer of a member that calls with it."""
        ticket = secrets.randbits(62)
        self._members[ticket] = member
        return ticket, member.actor.join.remote(self._address, ticket, STARTS_WITHIN)

    def forget(self, ticket: int) -> None:
        """Ignore what a worker still answers."""
        self._members.pop(ticket, None)

    def add(self, job: Given, parameters: Parameters | None = None) -> None:
        """Add a job, which goes with the next `give`, as do its parameters."""
        with self._lock:
            self._jobs.append(job)
            self._parameters = parameters or self._parameters
        self._added()

    def give(self) -> None:
        """Send the jobs, if any, with the parameters if they are new there."""
        with self._lock:
            if not self._jobs:
                return
            jobs, self._jobs = self._jobs, []
            sent: Sent = (0, None)
            if self._parameters is not None:
                sent = self._parameters.for_call(self._known)
                self._known = self._parameters.version
            self._give.remote(*sent, jobs)

    def take(self) -> None:
        """Ask for the next answers."""
        self._expect(self, self.actor.take.remote())

    def answers(self, taken: list[Answered]) -> Iterator[tuple[Member, bytes | None, Any]]:
        """Yield the answers of members that are still served."""
        for ticket, content, arrays in taken:
            if ticket in self._members:
                yield self._members[ticket], content, arrays

    def members(self) -> list[Member]:
        """Return those that it serves."""
        return list(self._members.values())


class Stations:
    """The stations of the other nodes. Each is started when the first worker there is set up, if not before.

    Args:
        actors: start them.
        expect: listens for an answer of a station.
    """

    def __init__(self, actors: Actors, expect: Callable[[Gate, Any], Any]) -> None:
        self._actors, self._expect = actors, expect
        self._gates: dict[str, Gate] = {}
        self._added, self._closed = threading.Event(), False
        threading.Thread(target=self._give_soon, daemon=True).start()

    def at(self, node: str) -> Gate:
        """Return the station of a node."""
        if node not in self._gates:
            address = new_address()
            self._gates[node] = Gate(self._actors.station(node, address), address, self._expect, self._added.set)
        return self._gates[node]

    def give(self) -> None:
        """Send all jobs that were added."""
        for gate in list(self._gates.values()):
            gate.give()

    def _give_soon(self) -> None:
        """Send jobs with those of the next milliseconds, whatever the driver does after it has added them."""
        while self._added.wait() and not self._closed:
            time.sleep(_SOON)
            self._added.clear()
            with suppress(Exception):  # Ray is gone, as the driver will find
                self.give()

    def forget(self, lost: Gate) -> list[Member]:
        """Forget a station that was lost. Return the members that it served."""
        self._gates = {node: gate for node, gate in self._gates.items() if gate is not lost}
        return lost.members()

    def close(self) -> None:
        """End them all."""
        self._closed = True
        self._added.set()
        for gate in self._gates.values():
            self._actors.kill(gate.actor)
