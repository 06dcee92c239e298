"""Numbers and texts as they are written into the page: short, finite, and never longer than needed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from maze_core.base.plain_json import is_number

_DIGITS = 5


def rounded(value: object) -> float | int | None:
    """Return a number with five significant digits; integers stay whole; None for what is no finite number."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool):
        return int(value)
    if not is_number(value) or value != value:
        return None
    short = value if isinstance(value, int) else float(f"{value:.{_DIGITS}g}")
    return int(short) if float(short).is_integer() and abs(short) < 2**53 else short


def column(values: Iterable[object]) -> list[float | int | None]:
    """Return many numbers, `[n]`, as `rounded` does."""
    return [rounded(value) for value in values]


def rows(values: np.ndarray) -> list[list[float | int | None]]:
    """Return numbers `[n, …]` as n flat lists."""
    return [column(row.tolist()) for row in values.reshape(len(values), -1)]


def text(value: Any, limit: int = 500) -> str:
    """Return a value as text of at most `limit` characters."""
    found = "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    return found if len(found) <= limit else found[: limit - 1] + "…"
