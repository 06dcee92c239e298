"""Lays a table out for a terminal of a width: no cell of the first column is cut, and no word is broken."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.cells import cell_len

_GAP = 2
_PROSE = 24
"""Least width of a column of sentences, or of paths; in less room it is left out."""

Rows = Sequence[Sequence[str]]


def lay_out(
    headers: Sequence[str], rows: Rows, width: int, least: Sequence[int] = (), *, paths: bool = False
) -> tuple[list[str], list[str]]:
    """Return the lines of a table, the header first, and the titles of columns for which there is no room.

    Sentences in the last column are wrapped between words, below each other. The first column is always shown whole.

    Args:
        headers: titles.
        rows: cells, as many as titles.
        width: of the terminal, in characters.
        least: numbers of columns that are left out first, in this order; then follow those at the end.
        paths: the last column holds paths, whose beginnings are cut before another column is left out.
    """
    kept = list(range(len(headers)))
    order = [*least, *(i for i in reversed(kept) if i not in least and i)]
    widths = [max(cell_len(row[i]) for row in (headers, *rows)) for i in kept]
    prose = len(headers) - 1 if paths else _prose(headers, rows)
    while len(kept) > 1 and _room(kept, widths, prose, width) is None:
        kept.remove(next(i for i in order if i in kept))
    room = _room(kept, widths, prose, width)
    if prose in kept and room is not None:
        widths[prose] = min(widths[prose], room)
    broken = _ending if paths else wrapped
    lines = [line for row in (headers, *rows) for line in _lines(row, kept, widths, prose, broken)]
    return lines, [headers[i] for i in range(len(headers)) if i not in kept]


def _prose(headers: Sequence[str], rows: Rows) -> int:
    """Return the number of the column of sentences, the last one; -1: it holds none."""
    last = len(headers) - 1
    return last if last and any(cell_len(row[last]) > _PROSE and " " in row[last] for row in rows) else -1


def _room(kept: Sequence[int], widths: Sequence[int], prose: int, width: int) -> int | None:
    """Return the room for the last column; None where these columns do not fit."""
    others = sum(widths[i] for i in kept if i != prose) + _GAP * (len(kept) - 1)
    if prose not in kept:
        return width - others if others <= width else None
    left = width - others
    return left if left >= min(_PROSE, widths[prose]) else None


def _lines(
    row: Sequence[str], kept: Sequence[int], widths: Sequence[int], prose: int, broken: Callable[[str, int], list[str]]
) -> list[str]:
    """Return the lines of one row; `broken` makes the last cell fit."""
    parts = [[row[i]] for i in kept]
    if prose in kept:
        parts[-1] = broken(row[prose], widths[prose])
    count = max(map(len, parts))
    return [
        (" " * _GAP)
        .join(_padded(part[n] if n < len(part) else "", widths[i]) for i, part in zip(kept, parts, strict=True))
        .rstrip()
        for n in range(count)
    ]


def wrapped(text: str, width: int) -> list[str]:
    """Return a text in lines of at most `width` characters, unless a word is longer."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if cell_len(longer) <= width:
            lines[-1] = longer
        elif lines[-1]:
            lines.append(word)
        else:
            lines[-1] = word
    return lines


def _ending(path: str, width: int) -> list[str]:
    """Return the end of a path that is too long for a line."""
    while cell_len(path) > width:
        path = "…" + path.removeprefix("…")[1:]
    return [path]


def _padded(text: str, width: int) -> str:
    return text + " " * (width - cell_len(text))
