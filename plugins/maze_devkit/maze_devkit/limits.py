"""The most time that a check may take: a plugin that hangs is interrupted, and the place where it was is told."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType

from maze_core.base.terminal_text import counted
from maze_devkit.findings import Check
from maze_devkit.whose import outermost_first, place

SECONDS = 300.0
"""Most seconds that a check may take where neither the check nor the plugin's `Trial` says anything else."""
_AGAIN = 5.0
"""Seconds after which code that has caught the interruption is interrupted again."""
GRACE = 30.0
"""Seconds after which the process ends where the interruption does not reach the plugin, as in a library in C."""


class TimeIsUp(BaseException):
    """Raised in whatever a check is doing when its time is up."""


@dataclass
class Limit:
    """The time of one check."""

    seconds: float
    module: str
    """The module of the plugin under test, whose code is named first."""
    struck: bool = False
    """True once the time was up."""
    over: bool = False
    place: str = ""
    """Where the plugin was then; empty where no code of its was running."""

    def strike(self, number: int, frame: FrameType | None) -> None:
        """Interrupt the check, as a handler of signals."""
        if self.over:
            return
        if not self.struck:
            self.struck = True
            self.place = place(outermost_first(frame), self.module)
        raise TimeIsUp

    @property
    def told(self) -> str:
        """What came of it."""
        where = f"; it was in {self.place}" if self.place else ""
        return f"it did not end within {counted(round(self.seconds), 'second')}{where}"


def seconds_for(check: Check, asked: float | None) -> float:
    """Return the most seconds of a check; `asked`: those of the plugin's trial."""
    return check.seconds or asked or SECONDS


@contextmanager
def limited(seconds: float, module: str) -> Iterator[Limit]:
    """Interrupt the block after so many seconds. Only the main thread can be interrupted, and not on Windows."""
    limit = Limit(seconds, module)
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield limit
        return
    handler, started = signal.signal(signal.SIGALRM, limit.strike), time.monotonic()
    left, every = signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN)
    try:
        with suppress(TimeIsUp):
            yield limit
    finally:
        limit.over = True
        # A timer of others goes on: what was left of it, without the time of the block.
        signal.setitimer(signal.ITIMER_REAL, left and max(left - (time.monotonic() - started), 0.001), every)
        signal.signal(signal.SIGALRM, handler)


@contextmanager
def ending_process(title: str, seconds: float, end: Callable[[int], object] = os._exit) -> Iterator[None]:
    """End this process, with a line that names the plugin, where a block lasts beyond its time and the grace.

    A library in C that hangs, or a loop that catches everything, cannot be interrupted.
    """
    done = threading.Event()

    def watch() -> None:
        if not done.wait(seconds + GRACE):
            print(f"error: {title} hangs and cannot be interrupted; the checks end here", file=sys.stderr, flush=True)
            end(1)

    watching = threading.Thread(target=watch, name="maze-check-limit", daemon=True)
    watching.start()
    try:
        yield
    finally:
        done.set()
        watching.join()
