"""How the command line prints errors, and the exit codes that they lead to."""

from __future__ import annotations

import errno
import os
import sys
import traceback

from maze_core.base.blame import blame, callers, causes, their_traceback
from maze_core.base.errors import ConfigError, MazeError, RunError
from maze_core.base.terminal_text import plain, printable, printable_lines
from maze_core.plugins.discovery import describe, place_in

_TOO_MANY = os.strerror(errno.EMFILE)
_MORE_FILES = "Next: ulimit -n 4096, then the same command again; or fewer workers and environments."


def print_failure(error: BaseException) -> int:
    """Print what ended a command, and return the exit code: of an error raised on purpose, or of wrong arguments."""
    if isinstance(error, MazeError):
        if os.environ.get("MAZE_DEBUG"):
            traceback.print_exc()
        print_error(error)
        return error.exit_code
    if isinstance(error, SystemExit | MemoryError):
        # SystemExit comes from an environment or a plugin: the command has not finished.
        problem = "sys.exit was called" if isinstance(error, SystemExit) else "there is not enough memory"
        print(printable(f"error: {problem}: {describe(error)}{place_in(error)}"), file=sys.stderr)
        return 1
    from maze_core.cli.wrong_usage import wrong_usage

    print_error(wrong_usage(error))
    return 2


def print_error(error: MazeError) -> None:
    """Print an error with its notes; if third-party code raised it, first that code's traceback."""
    if isinstance(error, RunError | ConfigError) and error.__cause__ is not None:
        _print_traceback(their_traceback(error.__cause__))
    notes = [*getattr(error, "__notes__", ()), *([_MORE_FILES] if _has_too_many_files(error) else ())]
    print(printable_lines("\n".join([f"error: {error}", *notes])), file=sys.stderr)


def _has_too_many_files(error: BaseException) -> bool:
    """Return True where an exception, or its cause, says that this process or machine may open no further files."""
    return any(
        (isinstance(each, OSError) and each.errno in (errno.EMFILE, errno.ENFILE)) or _TOO_MANY in describe(each)
        for each in causes(error)
    )


def _print_traceback(text: str) -> None:
    if text:
        print(printable_lines(plain(text)) + "\n", file=sys.stderr)


def print_unforeseen(error: Exception) -> None:
    """Print an unexpected error, and say whose code raised it."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        where = error.filename or "the output, or a file,"
        print(printable(f"error: {where} cannot be written: {error.strerror}"), file=sys.stderr)
        return
    if _has_too_many_files(error):
        print(printable_lines(f"error: {describe(error)}\n{_MORE_FILES}"), file=sys.stderr)
        return
    place, notes = blame(error), getattr(error, "__notes__", ())
    if place and not os.environ.get("MAZE_DEBUG"):
        _print_traceback(their_traceback(error))
        print(printable_lines("\n".join([f"error: {place} raised {describe(error)}", *notes])), file=sys.stderr)
        return
    _print_traceback("".join(traceback.format_exception(error)))
    others = callers(error)
    whose = f"Maze, or in {' or '.join(others)}, which called it" if others else "Maze"
    print(f"This is a bug in {whose}. Please report it with the lines above.", file=sys.stderr)
