"""The worker processes of a vectorised environment: start, messages, failures and end."""

from __future__ import annotations

import pickle
import time
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from maze_core.base.errors import MazeError, RunError
from maze_core.base.tree import Tree
from maze_core.envs.spaces import Specs, allocated_bytes
from maze_core.envs.vector import Share
from maze_local.lockstep import worker
from maze_local.lockstep.worker import NOTHING
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
from maze_local.shared_tree import SharedTree, has_room

_SLOW = 10
"""Building, resetting and replaying may take this many times the time limit of a step."""
_PATIENCE = 2.0
"""Seconds that workers have to close their environments before they are terminated."""


@dataclass(frozen=True)
class Member:
    """One worker process and the driver's end of its pipe."""

    share: Share
    process: Any
    pipe: Connection

    @property
    def title(self) -> str:
        """The worker's name in messages."""
        first, last = self.share.first, self.share.first + self.share.count - 1
        return f"the worker process of environment{f's {first} to {last}' if last > first else f' {first}'}"


class Pool:
    """Worker processes in lockstep: each receives a command, then all replies are collected.

    Any failure ends all workers and is raised; no wait exceeds its time limit.
    """

    def __init__(self, builder: bytes, shares: list[Share], start_method: StartMethod, timeout: float) -> None:
        self.timeout = timeout
        """Time limit of one step, in seconds."""
        self.members: list[Member] = []
        self._owing: list[Member] = []
        """Workers that have not replied to their command yet."""
        self._memory: SharedTree | None = None
        context = worker_context(start_method)
        with worker_variables():
            for share in shares:
                ours, theirs = context.Pipe()
                process = context.Process(target=worker.main, args=(theirs, builder, share), daemon=True)
                process.start()
                kill_at_exit(process)
                limit_silence(ours)
                theirs.close()  # so that the driver sees end of file when the worker dies
                self.members.append(Member(share, process, ours))
        self._owing = list(self.members)

    @property
    def arrays(self) -> Tree:
        """The shared arrays, leaves `[N, …]`; keep no views of them."""
        if self._memory is None:
            raise RunError("the environments are closed")
        return self._memory.arrays

    def share_memory(self, specs: Specs, num_envs: int) -> None:
        """Create the shared arrays and let the workers attach to them.

        Raises:
            RunError: shared memory has no room for them.
        """
        needed = allocated_bytes(specs, (num_envs,))
        if not has_room(needed):
            size = f"{needed / 1e6:.0f} MB"
            raise self._fail(
                f"shared memory has no room for what the environments send ({size}): enlarge /dev/shm, or --runner dev"
            )
        self._memory = memory = SharedTree(specs, num_envs)
        try:
            self.ask([("attach", memory.name)] * len(self.members))
        finally:
            memory.unlink()

    def ask(self, commands: list[tuple[Any, ...]]) -> list[Any]:
        """Send each worker its command and return all replies; waits `_SLOW` times as long as for a step."""
        self.send([pickle.dumps(command) for command in commands])
        return self.gather(_SLOW * self.timeout)

    def send(self, commands: list[bytes]) -> None:
        """Send each worker its command."""
        if not self.members:
            raise RunError("the environments are closed")
        if self._owing:  # Ctrl-C interrupted between a command and its replies
            self.gather(_SLOW * self.timeout)
        for member, command in zip(self.members, commands, strict=True):
            try:
                member.pipe.send_bytes(command)
            except OSError:
                self._owing.append(member)
                self.gather(self.timeout)  # reads its error message, or reports how it died
            self._owing.append(member)

    def gather(self, timeout: float, hint: str = "") -> list[Any]:
        """Return the reply of each worker, in order; None for NOTHING."""
        replies: dict[int, Any] = {}
        deadline = time.monotonic() + timeout
        while self._owing:
            by_channel: dict[Any, Member] = {}
            for member in self._owing:
                by_channel[member.pipe] = by_channel[member.process.sentinel] = member
            rest = deadline - time.monotonic()
            ready = wait(list(by_channel), min(max(rest, 0.0), LONGEST_WAIT))
            if not ready and rest > LONGEST_WAIT:
                continue
            if not ready:
                raise self._fail(f"{self._owing[0].title} did not answer within {timeout:g} seconds")
            for member in {id(by_channel[channel]): by_channel[channel] for channel in ready}.values():
                replies[member.share.first] = self._receive(member, hint)
                self._owing.remove(member)
        return [replies.get(member.share.first) for member in self.members]

    def close(self, patience: float = _PATIENCE) -> None:
        """End the workers: ask those that are idle, then terminate, then kill. Safe to call twice."""
        members, self.members = self.members, []
        for member in members:
            with suppress(OSError):
                member.pipe.send_bytes(pickle.dumps(("close",)))
        end_processes([member.process for member in members], 0.0 if self._owing else patience, stay=True)
        for member in members:
            member.pipe.close()
        self._owing = []
        memory, self._memory = self._memory, None
        if memory is not None:
            memory.close()

    def _receive(self, member: Member, hint: str) -> Any:
        try:
            if not member.pipe.poll():
                raise EOFError
            message = member.pipe.recv_bytes(LARGEST_MESSAGE)
            if message == NOTHING:
                return None
            reply = pickle.loads(message)  # noqa: S301 — from our own worker
            kind, *content = reply
        except Exception as exc:  # noqa: BLE001 — bytes that are no message may raise anything
            if is_spoilt(exc):
                raise self._fail(f"{member.title} {SPOILT}") from None
            member.process.join(_PATIENCE)
            raise self._fail(f"{member.title} died{how_it_ended(member.process.exitcode)}", hint) from None
        if kind == "error":
            raise self._reported(member, *content)
        return reply

    def _reported(self, member: Member, kind: type[MazeError] | None, message: str, text: str) -> MazeError:
        """Return the error that a worker reported. The user's own mistakes need no traceback."""
        if kind is not None and not issubclass(kind, RunError):
            self.close()
            return kind(message)
        return self._fail(message if kind else f"{member.title} failed", f"In the worker process:\n{text}")

    def _fail(self, message: str, hint: str = "") -> RunError:
        self.close(patience=0.0)
        failure = RunError(message.rstrip())
        if hint:
            failure.add_note(hint.rstrip())
        return failure
