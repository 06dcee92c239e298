"""Cheap checks that observations and rewards are finite, and the errors for those that are not."""

from __future__ import annotations

import math

import numpy as np

from maze_core.envs.vector import Tree
from maze_core.errors import RunError


def all_finite(array: np.ndarray) -> bool:
    """Return True when an array of floats has neither NaN nor infinity."""
    # A sum of squares is finite only where all values are, and costs a third of `isfinite(array).all()`.
    # It overflows for huge finite values, so the slow test decides then.
    flat = array.ravel()
    return math.isfinite(flat.dot(flat)) or bool(np.isfinite(array).all())


def first_bad_row(array: np.ndarray) -> int:
    """Return the first row of `[N, …]` with NaN or infinity."""
    return int(np.flatnonzero(~np.isfinite(array).reshape(len(array), -1).all(axis=1))[0])


def non_finite(what: str, place: str, value: object) -> RunError:
    """Return the error for a number that is not finite."""
    return RunError(f"{place} returned a {what} that is not finite: {str(value)[:80]}")


def check_finite(tree: Tree, keys: tuple[str, ...]) -> tuple[str, int] | None:
    """Return the first leaf among `keys` (leaves `[N, …]`) with a non-finite number, and its row; else None."""
    for key in keys:
        if not all_finite(tree[key]):
            return key, first_bad_row(tree[key])
    return None
