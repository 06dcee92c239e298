"""JSON that may come from a stranger, as plain data."""

from __future__ import annotations

import json
from typing import Any, TypeGuard


def parse_json(data: bytes | str) -> Any:
    """The value of a JSON text. Raises ValueError where it is none, or nests too deeply."""
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("it nests too deeply") from None


def parse_object(data: bytes | str) -> dict[str, Any]:
    """The mapping of a JSON text. Raises ValueError where it holds none."""
    value = parse_json(data)
    if not isinstance(value, dict):
        raise ValueError("it holds no mapping")
    return value


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a number that a float can hold; `true` is none."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e308


def is_count(value: object) -> TypeGuard[int]:
    """Whether a value is a whole number from 0 that 64 bits can hold."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63
