"""The two outputs of the console: a terminal with a live status at its bottom, and plain lines."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING, Protocol

from maze_core.base.terminal_text import printable
from maze_core.cli.console.table import Line

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

REFRESHES_PER_SECOND = 4
PLAIN_WIDTH = 141


class Output(Protocol):
    """Where the console writes."""

    def width(self) -> int:
        """Return the current width of a line in characters."""

    def write(self, line: Line) -> None:
        """Write one line; a longer one is not cut."""

    def start(self, status: RenderableType) -> None:
        """Show the status and redraw it a few times a second, if the output supports it."""

    def stop(self) -> None:
        """Remove the status, if there is one."""


class PlainOutput:
    """Lines for files and pipes, each flushed, without colours or live status."""

    def width(self) -> int:
        """Return the terminal's width minus one; COLUMNS overrides it."""
        return shutil.get_terminal_size((PLAIN_WIDTH, 24)).columns - 1

    def write(self, line: Line) -> None:
        """Write and flush one line."""
        print(printable("".join(text for text, _ in line).rstrip()), flush=True)

    def start(self, status: RenderableType) -> None:
        """Do nothing: there is no live status."""

    def stop(self) -> None:
        """Do nothing: there is no live status."""


class LiveOutput:
    """A terminal. A thread of rich draws the status, so training does not wait for it."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(highlight=False)
        self._live: Live | None = None

    def width(self) -> int:
        """Return the terminal's width minus one: some terminals wrap a line that fills the last column."""
        return self._console.width - 1

    def write(self, line: Line) -> None:
        """Write a line above the status; the terminal wraps a long one, so it can be copied whole."""
        from rich.text import Text

        self._console.print(Text.assemble(*((printable(text), style) for text, style in line)), soft_wrap=True)

    def start(self, status: RenderableType) -> None:
        """Show the status; other output appears above it."""
        from rich.live import Live

        self._live = Live(status, console=self._console, refresh_per_second=REFRESHES_PER_SECOND, transient=True)
        self._live.start()

    def stop(self) -> None:
        """Remove the status and end its thread."""
        if self._live is not None:
            self._live.stop()
            self._live = None


def is_terminal() -> bool:
    """Return True if standard output is a terminal that can move its cursor; FORCE_COLOR does not make a pipe one."""
    return sys.stdout.isatty() and os.environ.get("TERM", "") not in ("", "dumb")


def writes_unicode() -> bool:
    """Return True if standard output can encode the non-ASCII characters that the console uses."""
    try:
        "±★·".encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
