"""`maze runs watch`: the runs_table on a terminal, until Ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from maze_compare.table import runs_table
from maze_core.base.interruption import Interrupted

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live

    from maze_compare.records import DamagedRun, RunRecord

    Read = Callable[[], Sequence[RunRecord | DamagedRun]]


_PIPE = 160
"""Characters of a line where there is no terminal."""


def watch(
    read: Read, metric: str, every: float, console: Console, pause: Callable[[float], object] | None = None
) -> None:
    """Draw the runs every `every` seconds until Ctrl-C or SIGTERM, which raise KeyboardInterrupt; in a pipe once.

    Args:
        read: returns the runs as they are now.
        metric: whose curve is shown.
        every: seconds between two drawings.
        console: where to draw.
        pause: waits so many seconds.
    """
    unicode = console.encoding.lower().startswith("utf")
    wait = pause or threading.Event().wait
    if not console.is_terminal:
        console.width = _PIPE
        console.print(runs_table(read(), metric, _PIPE, 10**6, unicode))
        return
    with _raised(), _live(console) as live:
        while True:
            live.update(runs_table(read(), metric, console.width, console.height, unicode), refresh=True)
            wait(every)


def _live(console: Console) -> Live:
    from rich.live import Live

    return Live(console=console, auto_refresh=False, vertical_overflow="crop")


@contextmanager
def _raised() -> Iterator[None]:
    """Let SIGTERM end the watch by an error as Ctrl-C does, so that the cursor comes back."""

    def interrupt(number: int, frame: Any) -> None:
        raise Interrupted(number)

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
