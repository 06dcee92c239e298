"""The lines of a pool: those to workers on the driver's node, and those behind the stations of the other nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from maze_ray.socket_channel import Door, has_channels, new_address
from maze_ray.stations import Stations
from maze_ray.ways import OwnLine, StationLine

if TYPE_CHECKING:
    from collections.abc import Callable

    from maze_ray.actors import Actors
    from maze_ray.member import Member
    from maze_ray.socket_channel import Arrivals
    from maze_ray.stations import Gate

FEWEST = 8
"""Workers of a node, on average, from which on stations pay: with four, the driver of IMPALA has more to do than
without, and that of PPO a little less (`benchmarks/scale.py`)."""


class Lines:
    """Gives workers lines, and lets those at their ends read.

    Args:
        actors: start the stations.
        arrived: is told of messages from workers on this node.
        expect: listens for an answer of a station.
        wanted: False: there are no lines, and all jobs are calls of Ray. So it is where the system has none.
    """

    def __init__(self, actors: Actors, arrived: Arrivals, expect: Callable[[Gate, Any], Any], *, wanted: bool) -> None:
        self.wanted = wanted and has_channels()
        self._actors, self._arrived, self._expect = actors, arrived, expect
        self._door = Door(new_address()) if self.wanted else None
        self._stations: Stations | None = None

    def start_stations(self, workers: int) -> None:
        """Start stations on the nodes that are there, if they pay for so many workers."""
        nodes = self._actors.other_nodes() if self.wanted else []
        if self.wanted and workers >= FEWEST * max(1, len(nodes)):
            self._stations = Stations(self._actors, self._expect)
            for node in nodes:
                self._stations.at(node)

    @property
    def address(self) -> str | None:
        """Where workers on this node call; None: they need not."""
        return None if self._door is None else self._door.address

    def through_station(self, member: Member, node: str) -> tuple[StationLine, Any] | None:
        """Let a worker on another node call the station there.

        Returns:
            Its way if it succeeds, and Ray's reference to its answer; None: there are no stations.
        """
        if self._stations is None or node == self._actors.home:
            return None
        gate = self._stations.at(node)
        ticket, answer = gate.admit(member)
        return StationLine(gate, ticket), answer

    def own(self, member: Member) -> OwnLine:
        """Return the line to a worker on this node, which has called. Raises OSError if it has not."""
        if self._door is None:
            raise OSError("nobody asked it to")
        return OwnLine(member, self._door, self._arrived)

    def ring(self) -> None:
        """Let the workers on this node read their messages."""
        if self._door is not None:
            self._door.ring()

    def send_off(self) -> None:
        """Do so, and send the stations their jobs now and not soon."""
        self.ring()
        if self._stations is not None:
            self._stations.give()

    def lose(self, gate: Gate) -> list[Member]:
        """Forget a station that was lost. Return the members that it served."""
        return [] if self._stations is None else self._stations.forget(gate)

    def close(self) -> None:
        """End the stations, and let nobody call any more."""
        if self._stations is not None:
            self._stations.close()
        if self._door is not None:
            self._door.close()
