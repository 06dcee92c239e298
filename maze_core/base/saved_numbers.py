"""Reads numbers of a saved state, which somebody may have changed, before they are counted on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

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


def check_shapes(saved: Any, now: Mapping[str, Any], name: str) -> None:
    """Check arrays or tensors of a saved state by others in whose place they are to be.

    Raises:
        ValueError: others were saved, or one has another shape; the message has the `name`.
    """
    if not isinstance(saved, Mapping) or saved.keys() != now.keys():
        raise ValueError(f"its {name} should have {', '.join(now)}")
    for key, leaf in now.items():
        if type(saved[key]) is not type(leaf) or saved[key].shape != leaf.shape:
            raise ValueError(f"another shape in its {name}: {key}")


def check_alike(saved: Any, now: Mapping[str, Any], name: str) -> None:
    """Do as `check_shapes`; the types of the numbers must be the same, too."""
    check_shapes(saved, now, name)
    for key, leaf in now.items():
        if saved[key].dtype != leaf.dtype:
            raise ValueError(f"another type of numbers in its {name}: {key}")


def check_range(values: np.ndarray, low: Any, below: Any, name: str) -> None:
    """Raise ValueError, with the name, if one of the values is less than `low`, or not less than `below`."""
    if not ((values >= low) & (values < below)).all():
        raise ValueError(f"impossible values in its {name}")
