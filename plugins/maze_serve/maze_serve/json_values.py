"""Observations from JSON, and actions as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from gymnasium import Space, spaces


class UnfitValueError(ValueError):
    """A JSON value does not fit into its space; the message names the place."""


class ReadKeys(dict[str, Any]):
    """A mapping that notes which of its keys are read."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self.unread = set(values)

    def __getitem__(self, key: str) -> Any:
        self.unread.discard(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        """Return a value, or the default."""
        self.unread.discard(key)
        return super().get(key, default)

    def __iter__(self) -> Iterator[str]:
        self.unread.clear()
        return super().__iter__()

    def keys(self) -> Any:
        """Return all keys, of which all count as read."""
        self.unread.clear()
        return super().keys()

    def items(self) -> Any:
        """Return all items, of which all count as read."""
        self.unread.clear()
        return super().items()


def from_json(value: Any, space: Space[Any], where: str = "observation") -> Any:
    """Return the value of a space that a JSON value stands for: nested lists for arrays, objects for Dict spaces.

    Values out of bounds are left to the policy, which refuses what it was not trained for.

    Raises:
        UnfitValueError: it has another structure, shape or kind of number.
    """
    if isinstance(space, spaces.Dict):
        parts = _members(value, space, where)
        return {key: from_json(parts[key], child, f"{where}.{key}") for key, child in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        if not isinstance(value, list) or len(value) != len(space.spaces):
            raise UnfitValueError(f"{where} must be a list of {len(space.spaces)} parts")
        return tuple(from_json(v, child, f"{where}.{i}") for i, (v, child) in enumerate(zip(value, space, strict=True)))
    return _array(value, space, where)


def arrays_from_json(value: Any, where: str = "observation") -> Any:
    """Return a JSON value with arrays in the place of lists, for a policy that reads observations in a form of its own.

    Raises:
        UnfitValueError: a list does not hold numbers, or is ragged.
    """
    if isinstance(value, dict):
        return {key: arrays_from_json(each, f"{where}.{key}") for key, each in value.items()}
    if not isinstance(value, list):
        return value
    try:
        array = np.asarray(value)
    except ValueError:
        raise UnfitValueError(f"{where} must hold lists of the same length") from None
    if array.dtype.kind not in "biuf":
        raise UnfitValueError(f"{where} must hold numbers")
    return array


def to_json(value: Any) -> Any:
    """Return an action as JSON: lists for arrays, objects for mappings."""
    if isinstance(value, Mapping):
        return {key: to_json(each) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [to_json(each) for each in value]
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def _members(value: Any, space: spaces.Dict, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise UnfitValueError(f"{where} must be an object with {', '.join(map(repr, space.spaces))}")
    missing, unknown = space.spaces.keys() - value.keys(), value.keys() - space.spaces.keys()
    if missing:
        raise UnfitValueError(f"{where} has no {min(missing)!r}")
    if unknown:
        raise UnfitValueError(f"{where} has {min(unknown)!r:.80}, which the space has not")
    return value


def _array(value: Any, space: Space[Any], where: str) -> Any:
    shape, dtype = space.shape or (), np.dtype(space.dtype or np.float32)
    if isinstance(value, dict):
        raise UnfitValueError(f"{where} must be an array of shape {list(shape)}, got an object")
    try:
        array = np.asarray(value)
    except ValueError:
        raise UnfitValueError(f"{where} must be an array of shape {list(shape)}") from None
    if array.shape != shape:
        raise UnfitValueError(f"{where} must have the shape {list(shape)}, got {list(array.shape)}")
    if array.dtype.kind not in "biuf":
        raise UnfitValueError(f"{where} must hold numbers")
    if bool in _kinds(value) and dtype.kind != "b" and not isinstance(space, spaces.MultiBinary):
        raise UnfitValueError(f"{where} must hold numbers, not true or false")
    if dtype.kind == "b" and not np.isin(array, (0, 1)).all():
        raise UnfitValueError(f"{where} must hold true and false")
    if dtype.kind in "iu" and not _fits(array, dtype):
        raise UnfitValueError(f"{where} must hold whole numbers of {dtype}")
    with np.errstate(over="ignore"):  # a number beyond float32's range is refused as infinite
        stored = array.astype(dtype)
    return stored[()] if isinstance(space, spaces.Discrete) else stored


def _kinds(value: Any) -> set[type]:
    """Return the types of the numbers in nested lists; numpy would take true for 1 where it stands among numbers."""
    if not isinstance(value, list):
        return {type(value)}
    kinds = set(map(type, value))
    return set().union(*map(_kinds, value)) if list in kinds else kinds


def _fits(array: np.ndarray, dtype: np.dtype[Any]) -> bool:
    """Return True if numbers are whole and in the range of a type."""
    limits = np.iinfo(dtype)
    inside = np.isfinite(array).all() and (array >= limits.min).all() and (array <= limits.max).all()
    return bool(inside and (np.floor(array) == array).all())
