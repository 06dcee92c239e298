"""Reads numbers of a saved state, which somebody may have changed, before they are counted on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from maze_core.base.plain_json import is_count, is_number


def count_of(state: Mapping[str, Any], name: str) -> int:
    """Return a count of a saved state. Raises ValueError if it is none."""
    return as_count(state[name], name)


def as_count(value: Any, name: str) -> int:
    """Return a value that is a count. Raises ValueError, with the name, if it is none."""
    if not is_count(value):
        raise ValueError(f"its {name} is not a count")
    return int(value)


def number_of(state: Mapping[str, Any], name: str) -> float:
    """Return a number of a saved state. Raises ValueError if it is none."""
    if not is_number(state[name]):
        raise ValueError(f"its {name} is not a number")
    return float(state[name])
