"""The driver's side of the stations: what goes to each, and whose answers come from it."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from maze_ray.socket_channel import new_address

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from maze_ray.actors import Actors
    from maze_ray.member import Member
    from maze_ray.parameters import Parameters
    from maze_ray.station import Answered, Given

FEWEST = 3
"""Workers of a node, on average, from which on stations pay: for two, a call to the station and its answer are as much
as calls of both."""

STARTS_WITHIN = 30.0
"""Seconds; workers do without a station that does not."""


class Gate:
    """One station: the jobs it gets next, and the members that it serves."""

    def __init__(self, actor: Any, address: str, expect: Callable[[Gate, Any], Any]) -> None:
        self.actor = actor
        self._address, self._expect = address, expect
        self._members: dict[int, Member] = {}
        self._jobs: list[Given] = []
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

    def add(self, ticket: int, number: int, content: bytes | None) -> None:
        """Add a job, which goes with the next `give`."""
        self._jobs.append((ticket, number, content))

    def give(self, parameters: Parameters) -> None:
        """Send the jobs, if any, with the parameters if they are new there."""
        if self._jobs:
            jobs, self._jobs = self._jobs, []
            known, self._known = self._known, parameters.version
            self.actor.give.options(num_returns=0).remote(*parameters.for_call(known), jobs)

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

    @classmethod
    def where_they_pay(cls, workers: int, actors: Actors, expect: Callable[[Gate, Any], Any]) -> Stations | None:
        """Start one on each node that is there, for so many workers; None: there are too few for that."""
        nodes = actors.other_nodes()
        if workers < FEWEST * max(1, len(nodes)):
            return None
        stations = cls(actors, expect)
        for node in nodes:
            stations.at(node)
        return stations

    def at(self, node: str) -> Gate:
        """Return the station of a node."""
        if node not in self._gates:
            address = new_address()
            self._gates[node] = Gate(self._actors.station(node, address), address, self._expect)
        return self._gates[node]

    def give(self, parameters: Parameters) -> None:
        """Send all jobs that were added."""
        for gate in self._gates.values():
            gate.give(parameters)

    def forget(self, lost: Gate) -> list[Member]:
        """Forget a station that was lost. Return the members that it served."""
        self._gates = {node: gate for node, gate in self._gates.items() if gate is not lost}
        return lost.members()

    def close(self) -> None:
        """End them all."""
        for gate in self._gates.values():
            self._actors.kill(gate.actor)
