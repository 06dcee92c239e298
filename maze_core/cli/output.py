"""Shared by several commands: tables, JSON and exit codes."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
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


def print_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows: a drawn table on a terminal, aligned columns elsewhere."""
    headers, *rows = [[printable(cell, _CELL) for cell in row] for row in [headers, *rows]]
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Column, Table
        from rich.text import Text

        table = Table(*(Column(Text(each)) for each in headers))
        for row in rows:
            table.add_row(*map(Text, row))
        Console().print(table)
        return
    widths = [max(len(row[i]) for row in [headers, *rows]) for i in range(len(headers))]
    for row in [headers, *rows]:
        typer.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


warn = to_stderr
"""Print a warning on the error output."""


def say(message: str) -> None:
    """Print a sentence on the standard output; control characters of untrusted names are escaped."""
    typer.echo(printable(message))


def finish(summary: RunSummary) -> None:
    """Exit with the exit code of a run."""
    if summary.outcome == "interrupted":
        end_after(summary.reason)
    if summary.outcome == "failed":
        raise typer.Exit(1)


def end_after(cause: str) -> NoReturn:
    """Exit with the exit code of an interruption by Ctrl-C or SIGTERM, which `cause` names."""
    raise typer.Exit(exit_code_of(cause))
