"""What is printed while a run trains may be lost, on a full disk or in a closed pipe; the run goes on."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO, cast

from maze_core.base.terminal_text import printable

_FAILURES = (OSError, ValueError)
"""A full disk, a closed pipe, a terminal that is gone; ValueError: a closed file."""


class TolerantStream:
    """A text stream that drops what cannot be written and escapes what its encoding lacks; else the stream itself.

    Args:
        stream: where texts go; None: nowhere.
        tells: say once on the error output that something was lost.
    """

    def __init__(self, stream: TextIO | None, *, tells: bool = False) -> None:
        self._stream: Any = io.TextIOBase() if stream is None else stream  # one that refuses every text
        self._tells = tells and stream is not None

    def write(self, text: str) -> int:
        """Write a text if that is possible."""
        try:
            self._stream.write(text)
        except UnicodeEncodeError as error:
            with suppress(*_FAILURES):
                self._stream.write(text.encode(error.encoding, "backslashreplace").decode(error.encoding))
        except _FAILURES as error:
            self._lose(error)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Flush the stream if that is possible."""
        try:
            self._stream.flush()
        except _FAILURES as error:
            self._lose(error)

    def isatty(self) -> bool:
        """Return True for a terminal; a closed stream is none."""
        try:
            return bool(self._stream.isatty())
        except ValueError:
            return False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _lose(self, error: Exception) -> None:
        self._forget()
        if self._tells:
            self._tells = False
            reason = getattr(error, "strerror", None) or error
            to_stderr(f"warning: the output cannot be written ({reason}) and is dropped; the run goes on")

    def _forget(self) -> None:
        """Empty the stream's buffer: what it holds would fail again at every later text, and when Python exits."""
        with suppress(*_FAILURES, AttributeError):
            number = self._stream.fileno()
            kept, nowhere = os.dup(number), os.open(os.devnull, os.O_WRONLY)
            try:
                os.dup2(nowhere, number)
                self._stream.flush()
            finally:
                os.dup2(kept, number)
                os.close(kept)
                os.close(nowhere)


@contextmanager
def tolerant_output() -> Iterator[None]:
    """Let nothing that is printed inside the block fail, whoever prints it: the console, a warning, an environment."""
    before = sys.stdout, sys.stderr
    tolerate_lost_output(tells=True)
    ours = sys.stdout, sys.stderr
    try:
        yield
    finally:
        for each in ours:
            each.flush()
        if sys.stdout is ours[0]:  # else someone has replaced it for longer
            sys.stdout = before[0]
        if sys.stderr is ours[1]:
            sys.stderr = before[1]


def tolerate_lost_output(*, tells: bool = False) -> None:
    """Do so in this process from now on; `tells`: say once on the error output that something was lost."""
    sys.stdout = cast("TextIO", TolerantStream(sys.stdout, tells=tells))
    sys.stderr = cast("TextIO", TolerantStream(sys.stderr))


def to_stderr(message: str) -> None:
    """Print one line on the error output if that is possible, with control characters escaped."""
    with suppress(*_FAILURES):
        print(printable(message), file=sys.stderr)
