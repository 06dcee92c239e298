"""Whether numbers differ by more than rounding: noise that is divided by its own spread would look like a signal."""

from __future__ import annotations

from typing import Any

ROUNDING = 5e-7
"""The share of their size by which equal numbers may differ after some operations in float32, four units in the last
place."""


def nearly_equal(one: Any, other: Any) -> Any:
    """Return True where two numbers differ by no more than rounding. Numbers, arrays or tensors."""
    return abs(other - one) <= ROUNDING * (abs(one) + abs(other))
