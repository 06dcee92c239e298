"""Errors in a notebook: whose line it was, and what is wrong, instead of Maze's inside."""

from __future__ import annotations

import linecache
import re
import sys
from types import FrameType
from typing import Any

from maze_core.base.blame import blame, their_traceback
from maze_core.base.bundled import packages
from maze_core.base.errors import ConfigError, MazeError, RunError
from maze_core.base.terminal_text import plain, printable, printable_lines


def shorten(error: BaseException) -> None:
    """Let IPython show an error that Maze raised on purpose, or that the user's code raised, without Maze's frames.

    To be called while it is handled, below the caller's line. A bug of Maze keeps its whole traceback.
    """
    if isinstance(error, MazeError | KeyboardInterrupt):
        lines = [*_foreign(error), *_line(_outside(sys._getframe())), _message(error)]
    elif isinstance(error, Exception) and not isinstance(error, SyntaxError) and blame(error):
        lines = [_traceback(error)]
    else:
        return
    notes = [str(note) for note in getattr(error, "__notes__", ()) if str(note) not in "\n".join(lines)]
    shown = printable_lines("\n".join([*lines, *notes])).split("\n")
    error._render_traceback_ = lambda: shown  # type: ignore[union-attr]


def _foreign(error: BaseException) -> list[str]:
    """Return the traceback of other code that led to an error, as the command line prints it."""
    cause = error.__cause__ if isinstance(error, RunError | ConfigError) else None
    text = "" if cause is None else _traceback(cause)
    return [text, ""] if text else []


def _traceback(error: BaseException) -> str:
    """Return the part of a traceback that is not Maze's, with cells by their names."""
    return re.sub(r'(?<=  File )"(.+?)"', lambda found: _place(found[1], found[0]), plain(their_traceback(error)))


def _message(error: BaseException) -> str:
    kind, text = type(error).__name__, str(error)
    if isinstance(error, KeyboardInterrupt):
        return "KeyboardInterrupt"
    return f"{kind}: {text}"


def _outside(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame on the way out that is no part of Maze."""
    while frame is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] in packages():
        frame = frame.f_back
    return frame


def _line(frame: FrameType | None) -> list[str]:
    """Return the line of the user's program, such as `Cell In[3], line 2: context.train()`."""
    if frame is None:
        return []
    file, number = frame.f_code.co_filename, frame.f_lineno
    source = linecache.getline(file, number).strip()
    return [f"{_place(file, file)}, line {number}: {printable(source, 100)}"]


def _place(file: str, otherwise: str) -> str:
    """Return what IPython calls a cell; `otherwise` for other files."""
    shell: Any = sys.modules["IPython"].get_ipython()
    named = getattr(getattr(shell, "compile", None), "format_code_name", lambda name: None)(file)
    return " ".join(named) if named else otherwise
