"""The command `maze` and how it prints errors. Its commands are plugins: see `maze_core.cli.group`.

Imports stay light: each command imports what it needs when it runs, so that `maze --help` answers at once.
"""

from __future__ import annotations

import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    del sys.path[0]  # where `python -m` puts the current folder: before all installed packages

import errno
import os
import traceback
from io import TextIOWrapper
from typing import Annotated, Any, TextIO, cast

import typer

from maze_core.base.blame import blame, callers, causes, their_traceback
from maze_core.base.errors import ConfigError, MazeError, RunError
from maze_core.base.interruption import end_on_signals
from maze_core.base.terminal_text import plain, printable, printable_lines, warn_plainly
from maze_core.base.tolerant_output import TolerantStream
from maze_core.cli.group import Commands

_UsageError: type[Exception] = typer.BadParameter.__mro__[1]
# What Typer raises for arguments that do not fit; it has no public name.
_TOO_MANY = os.strerror(errno.EMFILE)
_MORE_FILES = "Next: ulimit -n 4096, then the same command again; or fewer workers and environments."


class _Root(Commands):
    """The top group: an error raised on purpose becomes a message and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except MazeError as error:
            if os.environ.get("MAZE_DEBUG"):
                traceback.print_exc()
            _print_error(error)
            raise typer.Exit(error.exit_code) from error
        except _UsageError as error:
            from maze_core.cli.wrong_usage import wrong_usage

            _print_error(wrong_usage(error))
            raise typer.Exit(2) from error
        except SystemExit as error:  # SystemExit of an environment or a plugin: the command has not finished
            print(printable(f"error: sys.exit was called: {_in_words(error)}"), file=sys.stderr)
            raise typer.Exit(1) from error
        except MemoryError as error:
            print(printable(f"error: there is not enough memory: {_in_words(error)}"), file=sys.stderr)
            raise typer.Exit(1) from error
        except KeyboardInterrupt as error:
            print("interrupted", file=sys.stderr)
            raise typer.Exit(getattr(error, "exit_code", 130)) from error


def _in_words(error: BaseException) -> str:
    from maze_core.plugins.discovery import describe, place_in

    return describe(error) + place_in(error)


def _print_error(error: MazeError) -> None:
    """Print an error with its notes; if third-party code raised it, first that code's traceback."""
    if isinstance(error, RunError | ConfigError) and error.__cause__ is not None:
        _print_traceback(their_traceback(error.__cause__))
    notes = [*getattr(error, "__notes__", ()), *([_MORE_FILES] if _has_too_many_files(error) else ())]
    print(printable_lines("\n".join([f"error: {error}", *notes])), file=sys.stderr)


def _has_too_many_files(error: BaseException) -> bool:
    """Return True where an exception, or its cause, says that this process or machine may open no further files."""
    from maze_core.plugins.discovery import describe

    return any(
        (isinstance(each, OSError) and each.errno in (errno.EMFILE, errno.ENFILE)) or _TOO_MANY in describe(each)
        for each in causes(error)
    )


def _print_traceback(text: str) -> None:
    if text:
        print(printable_lines(plain(text)) + "\n", file=sys.stderr)


def _print_unforeseen(error: Exception) -> None:
    """Print an unexpected error, and say whose code raised it."""
    from maze_core.plugins.discovery import describe

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


app = typer.Typer(
    name="maze",
    cls=_Root,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from maze_core.plugins.discovery import core_version

        typer.echo(f"maze {core_version() or 'unknown (not installed)'}")
        raise typer.Exit


@app.callback()
def _maze(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Applied reinforcement learning in which everything is a plugin.

    Start with: maze train ppo --env CartPole-v1
    """


def _prepare_streams() -> None:
    """Let standard streams that were closed before the start lead nowhere, and no message or character end a command.

    Without this the next file that is opened would have the number of such a stream, and receive what is printed.
    """
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(nowhere, "r" if name == "stdin" else "w", closefd=False))
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    sys.stderr = cast("TextIO", TolerantStream(sys.stderr))


def main() -> None:
    """Run the command line. Exit codes: 0 done, 1 failed, 2 wrong input, 130 after Ctrl-C, 143 after SIGTERM."""
    _prepare_streams()
    end_on_signals()
    warn_plainly()
    try:
        app()
    except Exception as error:  # noqa: BLE001 — nothing above this would report it
        _print_unforeseen(error)
        sys.exit(1)


if __name__ == "__main__":
    main()
