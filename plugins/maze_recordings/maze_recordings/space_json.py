"""Convert spaces to JSON and back: all spaces that Maze supports, with bounds, dtypes, starts and order of keys."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from maze_core import ConfigError
from maze_core.base.plain_json import is_count
from maze_core.base.terminal_text import shown
from maze_core.envs.actors import ActorId
from maze_core.envs.spaces import MAX_ENTRIES

_WRONG = (LookupError, TypeError, ValueError, AssertionError, AttributeError, ConfigError)


def space_to_json(space: Space[Any]) -> dict[str, Any]:
    """Return a space as plain data. Infinite bounds become the strings `inf` and `-inf`; equal bounds one number."""
    if isinstance(space, spaces.Dict):
        return {"type": "Dict", "spaces": [[key, space_to_json(child)] for key, child in space.spaces.items()]}
    if isinstance(space, spaces.Tuple):
        return {"type": "Tuple", "spaces": [space_to_json(child) for child in space.spaces]}
    if isinstance(space, ActorId):
        return {"type": "ActorId", "actors": [[name, kind] for name, kind in space.actors.items()]}
    if isinstance(space, spaces.Discrete):
        return {"type": "Discrete", "n": int(space.n), "start": int(space.start)}
    if isinstance(space, spaces.MultiDiscrete):
        nvec, start = np.asarray(space.nvec), np.asarray(space.start)
        return {
            "type": "MultiDiscrete",
            "nvec": nvec.tolist(),
            "start": start.tolist(),
            "dtype": np.dtype(space.dtype).name,
        }
    if isinstance(space, spaces.MultiBinary):
        return {"type": "MultiBinary", "n": int(np.prod(space.shape))}
    if isinstance(space, spaces.Box):
        bounds = {"low": _bounds_to_json(space.low), "high": _bounds_to_json(space.high)}
        return {"type": "Box", "shape": list(space.shape), "dtype": np.dtype(space.dtype).name, **bounds}
    raise ValueError(f"a {type(space).__name__} space has no JSON form")


def space_from_json(data: Any) -> Space[Any]:
    """Return the space described by a result of `space_to_json`.

    Raises:
        ValueError: the data does not describe a space.
    """
    try:
        if _entries(data) > MAX_ENTRIES:
            raise ValueError("too large")
        space: Space[Any] = _BUILDERS[data["type"]](data)
    except (*_WRONG, OverflowError, RecursionError) as error:
        raise ValueError(f"this does not describe a space: {shown(data, 200)}") from error
    return space


def _box(data: Any) -> spaces.Box:
    shape, dtype = tuple(map(_count, data["shape"])), _dtype(data["dtype"])
    low, high = (_bounds_from_json(data[name], shape, dtype) for name in ("low", "high"))
    return spaces.Box(low, high, shape, dtype.type)


def _actor_id(pairs: Any) -> ActorId:
    actors = dict(pairs)
    if len(actors) != len(pairs):
        raise ValueError("two actors have the same name")
    return ActorId(actors)


_BUILDERS: dict[str, Any] = {
    "Dict": lambda data: spaces.Dict([(key, space_from_json(child)) for key, child in data["spaces"]]),
    "Tuple": lambda data: spaces.Tuple([space_from_json(child) for child in data["spaces"]]),
    "ActorId": lambda data: _actor_id(data["actors"]),
    "Discrete": lambda data: spaces.Discrete(_count(data["n"]), start=data["start"]),
    "MultiDiscrete": lambda data: spaces.MultiDiscrete(data["nvec"], _dtype(data["dtype"]).type, None, data["start"]),
    "MultiBinary": lambda data: spaces.MultiBinary(_count(data["n"])),
    "Box": _box,
}


def _entries(data: Any) -> int:
    """Return the number of entries in all boxes of a space's description, before any is built."""
    if data["type"] == "Box":
        return math.prod(map(_count, data["shape"]))
    parts = data.get("spaces", ())
    return sum(_entries(part[1] if data["type"] == "Dict" else part) for part in parts)


def _count(value: Any) -> int:
    if not is_count(value):
        raise ValueError(f"{value!r} is not a count")
    return value


def _dtype(name: Any) -> np.dtype[Any]:
    """Return a numeric dtype by its name; NumPy's names of structured and repeated types are refused."""
    dtype = np.dtype(name if isinstance(name, str) else None)
    if dtype.kind not in "fiub" or dtype.name != name:
        raise ValueError(f"{name!r} is not a dtype")
    return dtype


def _bounds_to_json(bounds: np.ndarray) -> Any:
    first = bounds.flat[0]
    return _number(first.item()) if (bounds == first).all() else _numbers(bounds.tolist())


def _numbers(values: Any) -> Any:
    return [_numbers(value) for value in values] if isinstance(values, list) else _number(values)


def _number(value: Any) -> Any:
    return str(value) if isinstance(value, float) and math.isinf(value) else value


def _bounds_from_json(data: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """Return bounds `[*shape]`; NumPy parses the strings of infinite floats."""
    values = np.array(_floats(data) if dtype.kind == "f" else data, dtype)
    return np.broadcast_to(values, shape).copy()


def _floats(data: Any) -> Any:
    return [_floats(value) for value in data] if isinstance(data, list) else float(data)
