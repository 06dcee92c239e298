"""What several commands share: tables, JSON, exit codes, and the user's own modules."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from maze_core.training.report import RunSummary


def print_json(data: Any) -> None:
    """Print plain data as JSON."""
    typer.echo(json.dumps(data, indent=2, default=str))


def print_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows: a drawn table on a terminal, aligned columns elsewhere."""
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(*headers)
        for row in rows:
            table.add_row(*map(Text, row))
        Console().print(table)
        return
    widths = [max(len(row[i]) for row in [headers, *rows]) for i in range(len(headers))]
    for row in [headers, *rows]:
        typer.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def warn(message: str) -> None:
    """Say something beside what was asked for."""
    print(message, file=sys.stderr)


def allow_local_modules() -> None:
    """Let `module:Id` find modules in the current directory, behind everything that is installed."""
    here = os.getcwd()  # noqa: PTH109 — sys.path holds strings
    if here not in sys.path:
        sys.path.append(here)


def finish(summary: RunSummary) -> None:
    """Leave with the exit code of a run."""
    codes = {"interrupted": 130, "failed": 1}
    if summary.outcome in codes:
        raise typer.Exit(codes[summary.outcome])
