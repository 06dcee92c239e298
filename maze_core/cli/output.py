"""Shared by several commands: tables, JSON and exit codes."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from maze_core.base.interruption import exit_code_of
from maze_core.base.plain_json import finite
from maze_core.base.terminal_text import printable
from maze_core.base.tolerant_output import to_stderr

if TYPE_CHECKING:
    from maze_core.run.report import RunSummary


_CELL = 500
"""Most characters in one cell of a table."""


def print_json(data: Any) -> None:
    """Print plain data as JSON; numbers that JSON does not have, such as nan, are null."""
    typer.echo(json.dumps(finite(data), indent=2, default=str, allow_nan=False))


def print_table(
    headers: Sequence[str], rows: Sequence[Sequence[str]], least: Sequence[int] = (), *, paths: bool = False
) -> None:
    """Print rows as aligned columns; on a terminal only as many as fit.

    `least`: numbers of the columns that a narrow terminal leaves out first; then those at the end. `paths`: the last
    column holds paths, of which it shows the ends.
    """
    from maze_core.cli.table_layout import lay_out

    headers, *rows = [[printable(cell, _CELL) for cell in row] for row in [headers, *rows]]
    terminal = sys.stdout.isatty()
    wide = sum(max(map(len, column)) + 2 for column in zip(headers, *rows, strict=True))
    width = shutil.get_terminal_size().columns if terminal else wide
    lines, missing = lay_out(headers, rows, width, least, paths=paths)
    typer.echo(typer.style(lines[0], bold=True) if terminal else lines[0])
    for line in lines[1:]:
        typer.echo(line)
    if missing:
        more = f"not shown, for want of room: {', '.join(missing)}"
        typer.echo(typer.style(more, dim=True))


warn = to_stderr
"""Print a warning on the error output."""


def say(message: str) -> None:
    """Print a sentence on the standard output; control characters of untrusted names are escaped."""
    typer.echo(printable(message))


def say_fact(name: str, lines: Sequence[str], indent: int) -> None:
    """Print a name and, beginning at the column `indent`, its lines; a terminal's are wrapped between words."""
    from maze_core.cli.table_layout import wrapped

    if sys.stdout.isatty():
        room = max(shutil.get_terminal_size().columns - indent, 20)
        lines = [part for line in lines for part in wrapped(printable(line), room)]
    for number, line in enumerate(lines):
        say(f"{'' if number else name + ':':{indent}}{line}")


@contextmanager
def without_output(quiet: bool) -> Iterator[None]:
    """Print nothing on the standard output inside the block if `quiet`: a run's configuration keeps its console."""
    with ExitStack() as stack:
        if quiet:
            stack.enter_context(redirect_stdout(stack.enter_context(Path(os.devnull).open("w", encoding="utf-8"))))
        yield


def finish(summary: RunSummary) -> None:
    """Exit with the exit code of a run."""
    if summary.outcome == "interrupted":
        end_after(summary.reason)
    if summary.outcome == "failed":
        raise typer.Exit(1)


def end_after(cause: str) -> NoReturn:
    """Exit with the exit code of an interruption by Ctrl-C or SIGTERM, which `cause` names."""
    raise typer.Exit(exit_code_of(cause))
