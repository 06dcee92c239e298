"""`maze runs watch`: the runs_table on a terminal, until Ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from maze_compare.table import runs_table

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
    """Draw the runs every `every` seconds until Ctrl-C or SIGTERM; in a pipe once.

    Args:
        read: returns the runs as they are now.
        metric: whose curve is shown.
        every: seconds between two drawings.
        console: where to draw.
        pause: waits so many seconds; KeyboardInterrupt ends the watch.
    """
    unicode = console.encoding.lower().startswith("utf")
    wait = pause or threading.Event().wait
    if not console.is_terminal:
        console.width = _PIPE
        console.print(runs_table(read(), metric, _PIPE, 10**6, unicode))
        return
    with suppress(KeyboardInterrupt), _terminated_like_interrupted(), _live(console) as live:
        while True:
            live.update(runs_table(read(), metric, console.width, console.height, unicode), refresh=True)
            wait(every)


def _live(console: Console) -> Live:
    from rich.live import Live

    return Live(console=console, auto_refresh=False, vertical_overflow="crop")


@contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """Let SIGTERM end the watch as Ctrl-C does, so that the cursor comes back."""

    def interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
