"""Which observation leaves are sets, and which have another kind of block."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from maze_core import ConfigError
from maze_core.envs.spaces import is_image
from maze_set_models.config import Block, SetTemplateConfig

PRESENT_SUFFIX = "_present"
"""The leaf `<set>_present` is 1 for each element that is there; others are padding."""


@dataclass(frozen=True)
class SetLeaf:
    """A leaf of K elements with F features each."""

    key: str
    size: int
    features: int
    present: str | None
    """The leaf that says which elements are there; None: all of them."""


@dataclass(frozen=True)
class Leaves:
    """The leaves of an observation by kind of block."""

    sets: dict[str, SetLeaf]
    dense: dict[str, Space[Any]]
    images: dict[str, spaces.Box]


def sort_leaves(leaves: Mapping[str, Space[Any]], config: SetTemplateConfig) -> Leaves:
    """Return the leaves by kind of block.

    Raises:
        ConfigError: `blocks` names an unknown leaf, or a kind that does not suit its shape.
    """
    for key in config.blocks:
        if key not in leaves:
            raise ConfigError(f"there is no observation leaf {key!r}; leaves: {', '.join(leaves)}", "model.blocks")
    kinds = {key: config.blocks.get(key) or _kind(space) for key, space in leaves.items()}
    sets = {key: _set_leaf(key, leaves) for key, kind in kinds.items() if kind == "set"}
    padding = {leaf.present for leaf in sets.values()}
    images = {key: _image(key, leaves[key]) for key, kind in kinds.items() if kind == "image"}
    seen = [key for key, kind in kinds.items() if kind == "dense" and (key not in padding or key in config.blocks)]
    return Leaves(sets, {key: leaves[key] for key in seen}, images)


def _kind(space: Space[Any]) -> Block:
    if not isinstance(space, spaces.Box):
        return "dense"
    if is_image(space):
        return "image"
    return "set" if len(space.shape) == 2 and np.dtype(space.dtype).kind == "f" else "dense"


def _set_leaf(key: str, leaves: Mapping[str, Space[Any]]) -> SetLeaf:
    space = leaves[key]
    if not isinstance(space, spaces.Box) or len(space.shape) != 2:
        raise ConfigError(f"{key!r} is no set: {space}", f"model.blocks.{key}", "A set is a Box of shape [K, F].")
    size, features = space.shape
    present = leaves.get(key + PRESENT_SUFFIX)
    if present is not None and int(np.prod(present.shape or ())) != size:
        raise ConfigError(
            f"{key + PRESENT_SUFFIX!r} ({present}) marks the elements of {key!r}, but has not {size} entries",
            "env",
            f"Give it one entry per element (1: it is there), for example MultiBinary({size}); or rename the leaf.",
        )
    return SetLeaf(key, size, features, None if present is None else key + PRESENT_SUFFIX)


def _image(key: str, space: Space[Any]) -> spaces.Box:
    if not isinstance(space, spaces.Box):
        raise ConfigError(f"{key!r} is no image: {space}", f"model.blocks.{key}")
    return space
