"""Texts that are safe to show in a terminal: numbers with nouns, untrusted names, arguments for a shell, warnings."""

from __future__ import annotations

import os
import re
import shlex
import sys
import warnings
from pathlib import Path
from typing import TextIO

_COLOURS = re.compile(r"\x1b\[[\d;:]*[mK]")


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 epoch`, `1,200 epochs`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def printable(text: object, limit: int = 2000) -> str:
    """Return a text as one line of at most `limit` characters, without sequences that a terminal would execute.

    Control characters, line ends, marks that turn the writing direction and lone surrogates are written as `\\x1b`.
    """
    # Cut first: a foreign text may be of any length, and one character becomes ten at most.
    start = str(text)[: limit + 1]
    shown = start if start.isprintable() else "".join(c if c.isprintable() else _escaped(c) for c in start)
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def printable_lines(text: object) -> str:
    """Return a text of several lines, each made `printable`, such as an error with its hint or a traceback."""
    lines = str(text).replace("\t", "    ").split("\n")
    return "\n".join(printable(line) for line in lines)


def first_sentence(text: str) -> str:
    """Return the first sentence of a description, in one line, however it was broken."""
    paragraph = " ".join(text.strip().partition("\n\n")[0].split())
    return re.split(r"(?<!e\.g\.)(?<!i\.e\.)(?<=\.)\s+(?=[A-Z`'\"(])", paragraph, maxsplit=1)[0]


def plain(text: object) -> str:
    """Return a text of other code, such as an exception's, without the sequences that colour it in a terminal."""
    return _COLOURS.sub("", str(text))


def shown(value: object, limit: int = 80) -> str:
    """Return a wrong value for an error message: its `repr`, cut to `limit` characters."""
    try:
        text = repr(value[: limit + 1] if isinstance(value, str | bytes) else value)
    except Exception:  # noqa: BLE001 — an object of others may raise anything
        text = f"<{type(value).__name__}>"
    return text if len(text) <= limit else text[: limit - 1] + "…"


def kind_of(value: object) -> str:
    """Return what a value is, such as `a dict`, for messages."""
    return "None" if value is None else f"a {type(value).__name__}"


def argument(value: object) -> str:
    """Return a path or value as one argument of a shell command, in printable characters."""
    text = str(value)
    if text.isprintable():
        return shlex.quote(text)
    # In the form of bash and zsh: $'a\x1bb' is exactly the file of that name.
    data = text.encode("utf-8", "surrogateescape" if _is_file_name(text) else "replace")
    plain = (chr(byte) if 32 <= byte < 127 and byte not in b"'\\" else f"\\x{byte:02x}" for byte in data)
    return f"$'{''.join(plain)}'"


def _is_file_name(text: str) -> bool:
    try:
        return bool(os.fsencode(text))
    except UnicodeEncodeError:
        return False


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


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
