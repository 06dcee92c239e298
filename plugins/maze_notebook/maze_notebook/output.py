"""Where the console writes in a notebook: a bar with the progress, and below it a table that grows in its place."""

from __future__ import annotations

import contextvars
import secrets
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from maze_core.cli.console.table import Line
from maze_notebook.markup import bar, block, plain

if TYPE_CHECKING:
    from maze_core.cli.console.status import Status

WIDTH = 118
"""Characters in a line: what fits beside the prompt of a notebook on a screen of 1,280 pixels."""
LINES = 40
"""Lines of a block. A full one is not sent again, so long runs stay light."""
_PERIOD = 0.5
"""Seconds between two updates."""
_SEPARATOR = " · "
_LASTING = 3
"""Least rank of what stays true after the end: steps and scores, neither pace nor remaining time."""


def output() -> NotebookOutput | None:
    """Return the output of a notebook; None where IPython runs in a terminal."""
    shell = sys.modules["IPython"].get_ipython()
    return NotebookOutput() if hasattr(shell, "kernel") else None


class NotebookOutput:
    """Shows what it is given in places of the cell's output. A thread does that, so training does not wait for it."""

    def __init__(self) -> None:
        self._bar, self._block = Place(), Place()
        self._lines: list[Line] = []
        """Those of the block that still grows."""
        self._changed = False
        self._status: Status | None = None
        self._guard, self._ends = threading.Lock(), threading.Event()
        self._thread: threading.Thread | None = None
        self._begun = False

    def width(self) -> int:
        """Return the width of a line in characters."""
        return WIDTH

    def write(self, line: Line) -> None:
        """Add a line; it is shown with the next update, and at once where nothing is trained any more."""
        with self._guard:
            if len(self._lines) >= LINES:
                self._show()
                self._block, self._lines = Place(), []
            self._lines.append(line)
            self._changed = True
        if self._begun and self._thread is None:
            self.update()

    def start(self, status: Status) -> None:
        """Show the status above the lines, and from now on update everything twice a second."""
        self._status, self._begun = status, True
        self.update()
        context = contextvars.copy_context()  # which says whose cell it is
        self._thread = threading.Thread(target=context.run, args=(self._refresh,), daemon=True, name="maze-notebook")
        self._thread.start()

    def stop(self) -> None:
        """Show the last state of everything; what is written later is shown at once."""
        if self._thread is None:
            return
        self._ends.set()
        self._thread.join()
        self._thread = None
        self.update(_LASTING)
        self._status = None

    def update(self, least: int = 0) -> None:
        """Show what has changed; of the status what has at least this rank."""
        with self._guard:
            if self._status is not None:
                text = _SEPARATOR.join(words for rank, words in self._status.items() if rank >= least)
                self._bar.show(bar(self._status.fraction(), text), text)
            self._show()

    def _show(self) -> None:
        if self._changed:
            self._block.show(block(self._lines), plain(self._lines))
            self._changed = False

    def _refresh(self) -> None:
        while not self._ends.wait(_PERIOD):
            self.update()


class Place:
    """A place in the output of a cell, whose contents can be replaced."""

    def __init__(self) -> None:
        self._name = f"maze-{secrets.token_hex(8)}"
        self._is_there = False

    def show(self, html: str, text: str) -> None:
        """Show HTML, and a text where there is no HTML, in place of what is there."""
        show = _publisher()
        show({"text/html": html, "text/plain": text}, raw=True, display_id=self._name, update=self._is_there)
        self._is_there = True


def _publisher() -> Callable[..., Any]:
    from IPython.display import display

    return display
