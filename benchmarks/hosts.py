"""A small process that stands for workers of a run: it knows nothing of Maze, so hundreds of it fit on one machine."""

from __future__ import annotations

import asyncio
import os
import struct
from typing import Any

PLACE = b"J\x5a\x5a\x5a\x7a"
"""How the number `VERSION` is pickled: where an answer names the version of its parameters."""
VERSION = 0x7A5A5A5A


class Host:
    """Answers each call as a worker would: after the time of a rollout, with the answer that was recorded for it."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._answers: dict[bytes, tuple[bytes, Any, bool]] = {}
        self._bells: dict[Any, Any] = {}
        """What stations have sent, by line."""

    async def learn(self, mark: bytes, content: bytes, arrays: Any, takes_time: bool) -> None:
        """Take what every job that contains `mark` is answered with."""
        self._answers[mark] = content, arrays, takes_time

    async def setup(self, *_: Any) -> tuple[Any, ...]:
        """Answer as a worker that is ready, on a node of its own."""
        return "ready", os.getpid(), "", f"node {os.getpid()}", False

    async def join(self, address: str, ticket: int, patience: float) -> tuple[Any, ...]:
        """Call a station, for one more worker."""
        from maze_ray.socket_channel import call

        line = call(address, ticket, patience)
        if line is not None:
            asyncio.get_running_loop().add_reader(line.fileno(), self._hear, line)
        return "joined", line is not None

    async def serve(self) -> None:
        """Never return: jobs come over lines."""
        await asyncio.Event().wait()

    def _hear(self, line: Any) -> None:
        """Answer a job after its time; the first thing that a station sends is a bell."""
        if line not in self._bells:
            self._bells[line] = line.receive_bell()
            return
        number, *job = line.receive()
        answer, takes_time = self._answer(*job)
        asyncio.get_running_loop().call_later(self._seconds * takes_time, line.send, (number, *answer))

    async def run(self, *job: Any) -> tuple[Any, ...]:
        """Answer as the first worker did; only rollouts take time."""
        answer, takes_time = self._answer(*job)
        await asyncio.sleep(self._seconds * takes_time)
        return answer

    def _answer(self, job: bytes, version: int, arrays: Any) -> tuple[tuple[Any, ...], bool]:
        content, large, takes_time = next(answer for mark, answer in self._answers.items() if mark in job)
        return ("result", content.replace(PLACE, b"J" + struct.pack("<i", version)), large), takes_time

    async def close(self) -> None:
        """Do nothing."""
