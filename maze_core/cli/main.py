"""The command `maze` and how it prints errors. Its commands are plugins: see `maze_core.cli.group`.

Imports stay light: each command imports what it needs when it runs, so that `maze --help` answers at once.
"""

from __future__ import annotations

import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    del sys.path[0]  # where `python -m` puts the current folder: before all installed packages

import os
from io import TextIOWrapper
from typing import Annotated, Any, TextIO, cast

import typer

from maze_core.base.errors import MazeError
from maze_core.base.interruption import end_on_signals
from maze_core.base.terminal_text import warn_plainly
from maze_core.base.tolerant_output import TolerantStream
from maze_core.cli.group import Commands

_UsageError: type[Exception] = typer.BadParameter.__mro__[1]
# What Typer raises for arguments that do not fit; it has no public name.


class _Root(Commands):
    """The top group: an error raised on purpose becomes a message and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            print("interrupted", file=sys.stderr)
            raise typer.Exit(getattr(error, "exit_code", 130)) from error
        except (MazeError, _UsageError, SystemExit, MemoryError) as error:
            from maze_core.cli.failures import print_failure  # most commands end well

            raise typer.Exit(print_failure(error)) from error


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
        from maze_core.cli.failures import print_unforeseen

        print_unforeseen(error)
        sys.exit(1)


if __name__ == "__main__":
    main()
