"""JSON that anyone can read, and untrusted JSON read as plain data."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any, TypeGuard

CHECKSUM = "sha256"
"""The key in a checksummed mapping that holds the checksum of the others."""


def checksummed(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with a checksum, for `unsealed`."""
    return {**values, CHECKSUM: _checksum(values)}


def unsealed(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values without their checksum.

    Raises:
        ValueError: a value was changed, or the checksum is missing.
    """
    rest = dict(values)
    found = rest.pop(CHECKSUM, None)
    if found is None:
        raise ValueError("its checksum is missing")
    try:
        digest = _checksum(rest)
    except RecursionError:  # writing takes more of the stack than reading
        raise ValueError("it is nested too deeply") from None
    if found != digest:
        raise ValueError("its checksum does not match")
    return rest


def _checksum(values: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def parse_json(data: bytes | str) -> Any:
    """Return the value of a JSON text. Raises ValueError if it is invalid or nested too deeply."""
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def parse_object(data: bytes | str) -> dict[str, Any]:
    """Return the mapping in a JSON text. Raises ValueError if it holds none."""
    value = parse_json(data)
    if not isinstance(value, dict):
        raise ValueError("it is not a mapping")
    return value


def finite(data: Any) -> Any:
    """Return plain data with None for each number that is infinite or not a number: JSON has none of them."""
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, Mapping):
        return {key: finite(value) for key, value in data.items()}
    return [finite(each) for each in data] if isinstance(data, list | tuple) else data


def is_plain(value: object) -> bool:
    """Return True for data that JSON and YAML give back as it was: no types of other libraries, texts as keys."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and is_plain(each) for key, each in value.items())
    if isinstance(value, list | tuple):
        return all(map(is_plain, value))
    return value is None or type(value) in (bool, int, float, str)


def is_number(value: object) -> TypeGuard[float]:
    """Return True for a number that a float can hold; `true` is not a number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e308


def is_count(value: object) -> TypeGuard[int]:
    """Return True for an integer from 0 that 64 bits can hold."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63
