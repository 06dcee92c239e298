"""Reads values: two that are the same to a step are read as equal."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from itertools import chain
from types import FunctionType, MethodType, ModuleType
from typing import Any

import gymnasium
import numpy as np
from torch import Tensor, nn

from maze_compile.repeatable import is_ours

PLAIN = (type(None), bool, int, str, bytes)
OF_ALL = vars(nn.Module()).keys()
"""The attributes that each module has."""
_LARGE = 10_000
"""Items of a container up to which they are looked at; of a larger one only that it is another one."""
_PLAIN_KINDS = frozenset(PLAIN)
_LOOKED_AT = ("training", "_parameters", "_buffers", "_modules")
"""Those attributes of all modules that a module's own class cannot do without."""
_CONTAINERS = (Mapping, list, tuple, set, frozenset)
_OPAQUE = (Tensor, type, FunctionType, MethodType, ModuleType, gymnasium.Space)
"""What is only told apart: what a tensor holds is read at each step."""


class Same:
    """An object that equals itself alone."""

    __slots__ = ("_object",)

    def __init__(self, value: object) -> None:
        self._object = value

    def __eq__(self, other: object) -> bool:
        return type(other) is Same and other._object is self._object

    def __hash__(self) -> int:
        return id(self._object)


class Reader:
    """Reads values: plain ones, containers, and the attributes of objects.

    Args:
        apart: ids of objects that are not looked into.
    """

    def __init__(self, apart: set[int]) -> None:
        self._apart = apart

    def value(self, value: Any, *, of_algorithm: bool = False) -> Hashable:
        """Return what equals that of another value where both are the same to a step.

        Args:
            value: whatever it is.
            of_algorithm: True: objects of Maze's own classes are only told apart. What these keep is no part of a
                loss, or `loss_constants` has it.
        """
        kind = type(value)
        if kind in _PLAIN_KINDS or isinstance(value, PLAIN):
            return kind, value
        if isinstance(value, float):
            return float, repr(value)  # nan equals nan
        if isinstance(value, Tensor) or id(value) in self._apart:
            return Same(value)
        if isinstance(value, np.ndarray | np.generic) and value.size <= _LARGE and not value.dtype.hasobject:
            return str(value.dtype), value.shape, value.tobytes()
        inside = of_algorithm and not isinstance(value, nn.Module)
        found = self._parts(value, inside)
        if found is None:
            return Same(value)
        self._apart.add(id(value))  # it may occur once more, inside of itself, too
        names, parts = found
        return kind, names, tuple([self.value(part, of_algorithm=inside) for part in parts])

    def _parts(self, value: Any, of_algorithm: bool) -> tuple[tuple[str, ...], list[Any]] | None:
        """Return what a value consists of, with the names of these parts; None where it is only told apart."""
        if isinstance(value, dict) and len(value) <= _LARGE and set(map(type, value)) <= {str}:
            return tuple(value), [*value.values()]
        if isinstance(value, _CONTAINERS):
            items = chain.from_iterable(value.items()) if isinstance(value, Mapping) else value
            return ((), [*items]) if len(value) <= _LARGE else None
        if isinstance(value, _OPAQUE) or (of_algorithm and is_ours(value)):
            return None
        if isinstance(value, nn.Module):
            names = tuple([name for name in vars(value) if name not in OF_ALL or name in _LOOKED_AT])
            return names, [vars(value)[name] for name in names]
        attributes = dict(_attributes_of(value))
        return (tuple(attributes), [*attributes.values()]) if attributes else None


def _attributes_of(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the attributes of an object; nothing for one that has none."""
    yield from getattr(value, "__dict__", {}).items()
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if not name.startswith("__") and hasattr(value, name):
                yield name, getattr(value, name)
