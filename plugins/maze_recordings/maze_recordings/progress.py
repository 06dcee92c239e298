"""A progress bar for long tasks outside training, such as loading data or playing episodes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from maze_core.base.terminal_text import printable

Report = Callable[[int, int], None]
"""Called with the amount done and the total."""


@contextmanager
def progress_bar(title: str, shown: bool = True) -> Iterator[Report]:
    """Show a bar on the error output that moves with each report; nothing if that is not a terminal."""
    if not (shown and sys.stderr.isatty()):
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(escape(printable(title)), total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
