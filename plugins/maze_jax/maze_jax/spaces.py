"""Spaces of gymnasium for those of libraries in JAX, and for the arrays that they return."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import Space, spaces


def converted(space: Any) -> Space[Any]:
    """Return a space of gymnasium for one with the attributes of gymnax's: `n`, `spaces`, or bounds and a shape."""
    if hasattr(space, "n"):
        return spaces.Discrete(int(space.n))
    inner = getattr(space, "spaces", None)
    if isinstance(inner, Mapping):
        return spaces.Dict({str(key): converted(each) for key, each in inner.items()})
    if isinstance(inner, list | tuple):
        return spaces.Tuple([converted(each) for each in inner])
    return box(space.low, space.high, space.shape, space.dtype)


def box(low: Any, high: Any, shape: Any, dtype: Any) -> Space[Any]:
    """Return a Box; bounds that are the largest numbers of their type are infinite, booleans are numbers."""
    kind, shape = np.dtype(dtype), tuple(int(size) for size in shape)
    if kind.kind == "b":
        low, high, kind = 0, 1, np.dtype(np.float32)
    below, above = (np.broadcast_to(np.asarray(bound, np.float64), shape) for bound in (low, high))
    if kind.kind == "f":
        largest = np.finfo(np.float32).max * 0.99
        below, above = np.where(below <= -largest, -np.inf, below), np.where(above >= largest, np.inf, above)
        return spaces.Box(below.astype(np.float32), above.astype(np.float32), shape, np.float32)
    whole = np.iinfo(kind)
    least, most = (np.clip(bound, whole.min, whole.max).astype(kind) for bound in (below, above))
    return spaces.Box(least, most, shape, kind.type)


def of_arrays(tree: Any, declared: Space[Any] | None = None) -> Space[Any]:
    """Return the space of observations: arrays, or dicts and tuples of them, which need only a shape and a dtype.

    `declared` is what the library says, which is believed where it has the same structure and shapes.
    """
    if isinstance(tree, Mapping):
        inner = declared.spaces if isinstance(declared, spaces.Dict) else {}
        return spaces.Dict({str(key): of_arrays(each, inner.get(str(key))) for key, each in tree.items()})
    if isinstance(tree, list | tuple):
        members = declared.spaces if isinstance(declared, spaces.Tuple) else ()
        padded = [*members, *[None] * (len(tree) - len(members))]
        return spaces.Tuple([of_arrays(each, space) for each, space in zip(tree, padded, strict=False)])
    kind = np.dtype(tree.dtype)
    if isinstance(declared, spaces.Discrete) and tree.shape == () and kind.kind in "iu":
        return declared
    if isinstance(declared, spaces.Box) and declared.shape == tree.shape and (kind.kind == declared.dtype.kind):
        return box(declared.low, declared.high, tree.shape, kind)
    if isinstance(declared, spaces.MultiBinary | spaces.MultiDiscrete) and declared.shape == tree.shape:
        return declared
    if kind.kind in "iu":
        whole = np.iinfo(kind)
        return box(whole.min, whole.max, tree.shape, kind)
    return box(-np.inf, np.inf, tree.shape, kind)


def leaves(space: Space[Any], tree: Any) -> Any:
    """Yield a path, the leaf of a space, and what a tree has there; None where it has nothing.

    The path is a text, such as `hand/0`; empty for a space without members.
    """
    if isinstance(space, spaces.Dict | spaces.Tuple):
        members = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        for key, each in members:
            try:
                inner = tree[key]
            except (KeyError, IndexError, TypeError):
                inner = None
            for path, leaf, value in leaves(each, inner):
                yield f"{key}/{path}" if path else str(key), leaf, value
    else:
        yield "", space, tree
