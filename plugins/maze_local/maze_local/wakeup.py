"""A bell that wakes several workers at once, after the last message to them has been written.

A message wakes its reader at once, and Linux often lets it run on the core of the writer. Then the first of several
workers does its job before the second has heard of its own. So workers wait for a bell instead of a message.
"""

from __future__ import annotations

import os
import select
import sys
import weakref
from multiprocessing import reduction
from typing import Any

LONG = 16_384
"""Bytes of a message that may wait unread for the bell. The writer of a longer one may have to wait for the reader."""


def has_wakeups() -> bool:
    """Return True on Linux: elsewhere workers wait for messages."""
    return sys.platform == "linux"


class Wakeup:
    """A bell, on the driver's and on the workers' side. As an argument of a process that starts, it reaches that one.

    Args:
        event: a file descriptor that another process sent; None: a new bell.
    """

    def __init__(self, event: int | None = None) -> None:
        self._event = os.eventfd(0) if event is None else event
        self._finalizer = weakref.finalize(self, os.close, self._event)

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (reduction.DupFd(self._event),)

    def fileno(self) -> int:
        """Return the file descriptor."""
        return self._event

    def ring(self) -> None:
        """Wake all listeners; they look for messages."""
        os.eventfd_write(self._event, 1)

    def close(self) -> None:
        """Release the file descriptor; safe to call twice."""
        self._event = -1
        self._finalizer()


class Listener:
    """Waits for messages in a worker.

    Args:
        channel: the file descriptor from which messages are read.
        bell: rings after they were written; None: they are noticed without.
    """

    def __init__(self, channel: int, bell: Wakeup | None) -> None:
        self._kept = bell  # open as long as somebody listens
        self._bell: select.epoll | None = None
        if bell is not None:
            self._messages = select.poll()
            self._messages.register(channel, select.POLLIN)
            # Edge-triggered: the bell wakes every listener once, and nobody has to stop it.
            self._bell = select.epoll()
            self._bell.register(bell.fileno(), select.EPOLLIN | select.EPOLLET)

    def wait(self) -> None:
        """Return when the bell has rung and there is a message, or the writer has hung up."""
        while self._bell is not None and not self._messages.poll(0):
            self._bell.poll()


def _received(event: Any) -> Wakeup:
    return Wakeup(event.detach())
