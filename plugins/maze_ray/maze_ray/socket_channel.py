"""A line from a worker to the driver, or a station, on the same node: a message takes 0.05 ms, a call of Ray 1 to 2.

Only the messages go this way. Ray still places, starts, watches and ends the workers.
"""

from __future__ import annotations

import os
import pickle
import secrets
import selectors
import socket
import struct
import sys
import time
import zlib
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from maze_local.result_transfer import LARGE
from maze_local.wakeup import Wakeup

if TYPE_CHECKING:
    from collections.abc import Callable

_TRANSFER = 60.0
"""Seconds within which the rest of a message must follow."""
_BACKLOG = 4096
_BEGIN, _END = b"\xf5maze>", b"<maze\xf5"
"""The first and last bytes of a message."""
_MOST_PARTS = 2**20
"""The greatest number of large arrays in a message."""
_START = struct.Struct(f"<{len(_BEGIN)}sI")
_CHECK = struct.Struct("<I")


class NoMessageError(Exception):
    """The other end sent bytes that are no message: something in its process writes into descriptors of others."""


class SocketChannel:
    """One end of a connection. Messages are pickles; their large arrays follow without being copied into them.

    A message begins and ends with certain bytes, and its lengths have a checksum. So bytes that do not belong there,
    before a message or within it, are noticed before room is made for a message and before it is unpickled.
    """

    def __init__(self, connection: socket.socket, timeout: float | None = _TRANSFER) -> None:
        connection.settimeout(timeout)
        self._socket = connection
        self._room = connection.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) // 2
        """Bytes that the other end need not read while they are written."""

    def fileno(self) -> int:
        """Return the file descriptor, for a selector."""
        return self._socket.fileno()

    def send(self, message: Any, wake: Callable[[], object] = lambda: None) -> None:
        """Send a message. Raises OSError if the other end is gone, or does not read it.

        `wake`: wakes the other end, which has to read a long message while it is written.
        """
        arrays: list[memoryview] = []

        def stays(buffer: pickle.PickleBuffer) -> bool:
            view = buffer.raw()
            if view.nbytes >= LARGE:
                arrays.append(view)
            return view.nbytes < LARGE

        content = pickle.dumps(message, protocol=5, buffer_callback=stays)
        sizes = [len(content), *(array.nbytes for array in arrays)]
        head = _START.pack(_BEGIN, len(sizes)) + struct.pack(f"<{len(sizes)}Q", *sizes)
        head += _CHECK.pack(zlib.crc32(head))
        if len(head) + sum(sizes) > self._room:
            self._socket.sendall(head)
            wake()
            self._socket.sendall(content)
            for array in arrays:
                self._socket.sendall(array)
            self._socket.sendall(_END)
        else:
            self._socket.sendall(b"".join([head, content, *arrays, _END]))

    def receive(self) -> Any:
        """Return the next message.

        Raises:
            EOFError, OSError: the other end is gone.
            NoMessageError: what it sent is no message, or the rest of one does not come.
        """
        content, *arrays = self.receive_parts()
        return pickle.loads(content, buffers=arrays)  # noqa: S301 — from another process of this run

    def receive_parts(self) -> list[bytearray]:
        """Return the pickle of the next message and its large arrays. Raises what `receive` does."""
        parts = [self._read(size) for size in self._sizes()]
        if self._read(len(_END)) != _END:
            raise NoMessageError
        return parts

    def _sizes(self) -> tuple[int, ...]:
        """Return the lengths of the parts of the message that begins."""
        start = self._read(_START.size)
        begin, count = _START.unpack(start)
        if begin != _BEGIN or not 0 < count <= _MOST_PARTS:
            raise NoMessageError
        sizes = self._read(8 * count)
        if self._read(_CHECK.size) != _CHECK.pack(zlib.crc32(start + sizes)):
            raise NoMessageError
        return struct.unpack(f"<{count}Q", sizes)

    def send_bell(self, bell: Wakeup) -> None:
        """Let the other end listen for a bell. Raises OSError as `send` does."""
        socket.send_fds(self._socket, [b"*"], [bell.fileno()])

    def receive_bell(self) -> Wakeup:
        """Return the bell that was sent. Raises EOFError or another OSError if the other end is gone."""
        _, events, _, _ = socket.recv_fds(self._socket, 1, 1)
        if not events:
            raise EOFError
        return Wakeup(events[0])

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def _read(self, size: int) -> bytearray:
        content = bytearray(size)
        rest = memoryview(content)
        while rest:
            try:
                count = self._socket.recv_into(rest)
            except TimeoutError:
                raise NoMessageError from None
            if not count:
                raise EOFError
            rest = rest[count:]
        return content


def new_address() -> str:
    """Return an address for a `Door` that nobody else has."""
    return f"\0maze-{secrets.token_hex(16)}"


class Door:
    """Where the workers of a node report: a socket without a file and without a port, on Linux only.

    Processes of other users are turned away.

    Args:
        address: what a worker on this node needs for `call`.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(self.address)
        self._socket.listen(_BACKLOG)
        self._socket.settimeout(_TRANSFER)
        self._waiting: dict[int, SocketChannel] = {}
        self._bell = Wakeup()
        self._unheard = False
        """True: there are messages for which the bell has not rung."""

    def admit(self, number: int) -> SocketChannel:
        """Return the line of worker `number`, which has called. Raises OSError if it has not.

        A process that says something else than the number of a worker is turned away.
        """
        while number not in self._waiting:
            connection, _ = self._socket.accept()
            if not _is_ours(connection):
                connection.close()
                continue
            line = SocketChannel(connection)
            try:
                self._waiting[int(line.receive())] = line
            except (OSError, EOFError, NoMessageError, TypeError, ValueError):  # a worker that died meanwhile
                line.close()
        line = self._waiting.pop(number)
        with suppress(OSError):  # it died since: its line says so
            line.send_bell(self._bell)
        return line

    def tell(self, line: SocketChannel, message: Any) -> None:
        """Send a message, which is read when the bell rings. Raises OSError as `SocketChannel.send` does."""
        self._unheard = True
        line.send(message, self.ring)

    def ring(self) -> None:
        """Let all workers read their messages, if there are any."""
        if self._unheard:
            self._unheard = False
            self._bell.ring()

    def close(self) -> None:
        """Let nobody in any more."""
        for line in self._waiting.values():
            line.close()
        self._socket.close()
        self._bell.close()


def call(address: str, number: int, patience: float = 0.0) -> SocketChannel | None:
    """Return worker `number`'s line to the `Door` on the same node; None if it is not opened within `patience` s."""
    deadline = time.monotonic() + patience
    while True:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(_TRANSFER)
            connection.connect(address)
            line = SocketChannel(connection, None)
            line.send(number)
        except OSError:
            connection.close()
            if time.monotonic() >= deadline:
                return None
            time.sleep(0.05)
        else:
            return line


def has_channels() -> bool:
    """Return True where there are such sockets."""
    return sys.platform == "linux"


class Arrivals:
    """What has arrived for the driver: answers that Ray's thread puts here, and messages on lines.

    Waiting and looking take the same time with any number of lines.
    """

    def __init__(self) -> None:
        self._answers: deque[Any] = deque()
        self._selector = selectors.DefaultSelector()
        self._bell, self._button = socket.socketpair()
        self._bell.setblocking(False)
        self._button.setblocking(False)
        self._selector.register(self._bell, selectors.EVENT_READ)

    def __len__(self) -> int:
        return len(self._answers)

    def put(self, answer: Any) -> None:
        """Add an answer, from any thread."""
        self._answers.append(answer)
        with suppress(OSError):  # it rings already, or nobody waits any more
            self._button.send(b".")

    def watch(self, line: SocketChannel, owner: Any) -> None:
        """Let `get` return the owner of a line as soon as there is a message."""
        self._selector.register(line, selectors.EVENT_READ, owner)

    def forget(self, line: SocketChannel) -> None:
        """End `watch`."""
        self._selector.unregister(line)

    def get(self, timeout: float | None) -> tuple[list[Any], list[Any]]:
        """Return the answers and the owners of lines with a message, after at most `timeout` seconds, if not None."""
        owners = []
        for key, _ in self._selector.select(0.0 if self._answers else timeout):
            if key.data is not None:
                owners.append(key.data)
                continue
            with suppress(BlockingIOError):
                self._bell.recv(4096)
        answers = [self._answers.popleft() for _ in range(len(self._answers))]
        return answers, owners

    def close(self) -> None:
        """Release the sockets."""
        self._selector.close()
        self._bell.close()
        self._button.close()


def _is_ours(connection: socket.socket) -> bool:
    """Return True if the process at the other end belongs to this user."""
    size = struct.calcsize("3i")
    _, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return bool(user == os.getuid())
