"""Finds recorded values that cannot be used: numbers that are not finite, and those that their space does not have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from gymnasium import spaces

from maze_core.envs.spaces import Role, choices_of

if TYPE_CHECKING:
    from gymnasium import Space

_ROUNDING = 4.0
# Steps between neighbouring floats: actions are stored as float32, and often computed in it from other units.
_CLIP = "Next: record the action space in which the actions lie, or clip them to its bounds before they are recorded"


class WrongValue(NamedTuple):
    """The first value of an array that cannot be used."""

    row: int
    problem: str
    """The end of a sentence that begins with the array's name."""
    hint: str = ""
    """What next, for actions outside their bounds."""


def wrong_value(rows: np.ndarray, space: Space[Any] | None, role: Role | None) -> WrongValue | None:
    """Return the first value of an array `[N, …]` that cannot be used; None if all can be.

    Observations may leave the bounds of their Box, as those of many environments do; actions may not.

    Args:
        rows: a leaf as it is stored: discrete values count from 0.
        space: of one row; None: a number.
        role: what the space is for.
    """
    if rows.dtype.kind == "f" and not (finite := np.isfinite(rows)).all():
        return _first(rows, ~finite, "is not finite")
    if isinstance(space, spaces.Box):
        return _wrong_in_box(rows, space) if role == "action" else None
    if space is None or ((rows >= 0) & (rows < choices_of(space))).all():
        return None
    return _first(rows, (rows < 0) | (rows >= choices_of(space)), f"is outside {space}, counted from 0")


def _wrong_in_box(rows: np.ndarray, space: spaces.Box) -> WrongValue | None:
    """Return the first action outside the bounds of its Box, or between the whole numbers of one of integers."""
    low, high = (np.asarray(bound, np.float64) for bound in (space.low, space.high))
    kind: np.dtype[Any] = np.dtype(space.dtype)
    share = _ROUNDING * max(float(np.finfo(each).eps) for each in (np.float32, kind) if np.dtype(each).kind == "f")
    slacks = [share * np.where(np.isfinite(bound), np.abs(bound), 0.0) for bound in (low, high)]
    if kind.kind == "f":  # computed between the bounds, which may be 0
        slacks = [np.maximum(*slacks)] * 2
    low, high = low - slacks[0], high + slacks[1]
    if (rows.min(0) < low).any() or (rows.max(0) > high).any():
        outside = (rows < low) | (rows > high)
        place = _place(outside)[1:]
        found = _first(rows, outside, f"is outside its bounds, {space.low[place]:g} to {space.high[place]:g}")
        return found._replace(hint=_CLIP)
    if kind.kind != "f" and (parts := rows != np.rint(rows)).any():
        return _first(rows, parts, f"is no whole number, as those of {space} are")
    return None


def _first(rows: np.ndarray, wrong: np.ndarray, why: str) -> WrongValue:
    row, *inner = place = _place(wrong)
    where = f" at {inner}" if inner else ""
    return WrongValue(row, f"holds {rows[place].item():.9g}{where}, which {why}")


def _place(wrong: np.ndarray) -> tuple[int, ...]:
    """Return the index of the first value that is marked."""
    return tuple(int(index) for index in np.unravel_index(int(wrong.argmax()), wrong.shape))
