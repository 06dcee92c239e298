"""Connections of clients: each is served in turn, and none may hold up the others or take more than its part."""

from __future__ import annotations

import asyncio
import resource
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from maze_core.base.interruption import graceful_interrupts
from maze_core.base.tolerant_output import to_stderr
from maze_serve.limits import Limits
from maze_serve.refusals import RefusedRequestError
from maze_serve.wire import CONTINUE, END, check_so_far, read_head

if TYPE_CHECKING:
    import socket

    from maze_serve.app import App
    from maze_serve.wire import Head

_CHUNK = 65_536
_BURST = 16
"""Requests of a connection that never waits after which others have a turn."""


class Server:
    """Answers requests until it is stopped.

    Args:
        app: says what is answered.
        limits: of each client.
    """

    def __init__(self, app: App, limits: Limits | None = None) -> None:
        self.app = app
        self.limits = limits or Limits()
        # Half of the files that this process may open, where that is less.
        self._most = min(self.limits.connections, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)
        self.receiving = 0
        """Bytes of bodies that have been promised and not yet answered."""
        self._open: dict[_Connection, asyncio.Task[Any]] = {}
        """Those that have been idle for the longest time come first."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._said: set[str] = set()
        self._stopped = False
        self._stop = asyncio.Event()

    def run(self, listener: socket.socket) -> None:
        """Serve until Ctrl-C or SIGTERM, which then has its usual effect."""
        with graceful_interrupts(lambda cause: self.stop()) as preemption:
            asyncio.run(self.serve(listener))
        preemption.pass_on()

    def stop(self) -> None:
        """Let `serve` return; from any thread."""
        self._stopped = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)

    async def serve(self, listener: socket.socket) -> None:
        """Answer what comes to a listening socket until `stop`; then end all connections."""
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(self._say)
        accepting = await asyncio.start_server(self._connected, sock=listener)
        if not self._stopped:
            await self._stop.wait()
        accepting.close()
        tasks = list(self._open.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def served(self, connection: _Connection) -> None:
        """Note that a connection has just had its answer."""
        if (task := self._open.pop(connection, None)) is not None:  # else it had to make room
            self._open[connection] = task

    def _say(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Say once in one line what went wrong outside of any request, such as that no further files can be opened."""
        error = context.get("exception")
        line = f"warning: {context.get('message', 'error')}" + ("" if error is None else f": {error}")
        if line not in self._said:
            self._said.add(line)
            to_stderr(line)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection, task = _Connection(self, reader, writer), asyncio.current_task()
        assert task is not None  # noqa: S101 — this is one
        if len(self._open) >= self._most:
            oldest = next((each for each in self._open if each.idle), next(iter(self._open)))
            self._open.pop(oldest)
            oldest.abort()
        self._open[connection] = task
        try:
            with suppress(EOFError):  # the client has left in the middle of a request
                await connection.answer_all()
        except (OSError, asyncio.CancelledError):  # the client is gone or too slow, or the server ends
            connection.abort()
        finally:
            self._open.pop(connection, None)
            writer.close()


class _Connection:
    """A client that sends one request after the other."""

    def __init__(self, server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._server, self._reader, self._writer = server, reader, writer
        self._limits = server.limits
        self._now = asyncio.get_running_loop().time
        self._received = bytearray()
        self.idle = True
        """True while nothing of a request has come."""

    def abort(self) -> None:
        """End at once."""
        self._writer.transport.abort()

    async def answer_all(self) -> None:
        """Answer requests until the client leaves, or has sent what nothing can follow."""
        count = 0
        while await self._begun() and await self._answer_one():
            self._server.served(self)
            count += 1
            if count % _BURST == 0:
                await asyncio.sleep(0)

    async def _begun(self) -> bool:
        """Wait for the first bytes of a request; return False if none come."""
        self.idle = True
        data = bytes(self._received).lstrip(b"\r\n")  # some clients send an empty line after a body
        with suppress(TimeoutError):
            async with asyncio.timeout(self._limits.idle_seconds):
                while not data and (data := await self._reader.read(_CHUNK)):
                    data = data.lstrip(b"\r\n")
        self.idle = False
        self._received = bytearray(data)
        return bool(data)

    async def _answer_one(self) -> bool:
        """Return True if another request may follow."""
        shows_body = True
        try:
            head = await self._head()
            shows_body = head.method != "HEAD"
            self._server.app.check(head)
            body = await self._body(head)
            answer, closes = self._server.app.answer(head, body), not head.keeps_alive
        except RefusedRequestError as error:  # where the next request begins is not known
            answer, closes = self._server.app.refusal(error), True
        await self._send(answer.encode(with_body=shows_body, closes=closes))
        if closes:
            await self._linger()
        return not closes

    async def _head(self) -> Head:
        until = self._now() + self._limits.head_seconds
        while (end := self._received.find(END)) < 0:
            check_so_far(self._received, self._limits)
            await self._receive("headers", until)
        check_so_far(self._received[: end + 1], self._limits)
        head = read_head(self._take(end), self._limits)
        self._take(len(END))
        return head

    async def _body(self, head: Head) -> bytes:
        server, missing = self._server, head.length - len(self._received)
        promised = head.length if missing > 0 and head.length > _CHUNK else 0  # connections bound what is small
        if server.receiving + promised > self._limits.all_bodies_bytes:
            raise RefusedRequestError(503, "too many large requests at once", {"Retry-After": "1"})
        server.receiving += promised
        try:
            if missing > 0 and head.expects:
                await self._send(CONTINUE)
            until = self._now() + self._limits.body_seconds
            while len(self._received) < head.length:
                await self._receive("body", until)
        finally:
            server.receiving -= promised
        return self._take(head.length)

    async def _receive(self, part: str, until: float) -> None:
        """Wait for more of a part of a request."""
        try:
            async with asyncio.timeout_at(until):
                data = await self._reader.read(_CHUNK)
        except TimeoutError:
            raise RefusedRequestError(408, f"the {part} did not come in time") from None
        if not data:
            raise EOFError
        self._received += data

    def _take(self, count: int) -> bytes:
        taken = bytes(self._received[:count])
        del self._received[:count]
        return taken

    async def _send(self, data: bytes) -> None:
        if self._writer.transport.is_closing():  # asyncio would say so on stderr, for each answer
            raise ConnectionResetError
        self._writer.write(data)
        if self._writer.transport.get_write_buffer_size():
            async with asyncio.timeout(self._limits.write_seconds):
                await self._writer.drain()

    async def _linger(self) -> None:
        """Let the client send on for a moment, unread: a connection that is closed at once loses the answer."""
        self._received.clear()
        with suppress(TimeoutError, OSError):
            self._writer.write_eof()
            async with asyncio.timeout(self._limits.linger_seconds):
                while await self._reader.read(_CHUNK):
                    pass
