"""How warnings are printed: by the command line, and by the processes that it starts."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import TextIO

from maze_core.base.terminal_text import plain, printable_lines


def warn_plainly() -> None:
    """Print warnings of Maze and its plugins as a line; those of other code keep Python's form, without colours."""
    usual = warnings.showwarning

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if sys.stderr is None or file is not None:
            usual(message, category, filename, lineno, file, line)
        elif any(part.startswith("maze_") for part in Path(filename).parts):
            print(printable_lines(f"warning: {message}"), file=sys.stderr)
        else:
            text = warnings.formatwarning(message, category, filename, lineno, line).rstrip()
            print(printable_lines(plain(text)), file=sys.stderr)

    warnings.showwarning = show
