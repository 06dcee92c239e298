"""Spaces of action masks, and masks in the form that a space asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from maze_core.base.errors import ConfigError
from maze_core.envs.masks import mask_size


def mask_space(action_space: Space[Any]) -> Space[Any]:
    """Return the space of an action's masks, Dict and Tuple as the action has them, without a Dict's Box members.

    Raises:
        ConfigError: nothing, or a member of a Tuple, can be masked.
    """
    if isinstance(action_space, spaces.Dict):
        members = {key: space for key, space in action_space.spaces.items() if not isinstance(space, spaces.Box)}
        if members:
            return spaces.Dict({key: mask_space(space) for key, space in members.items()})
    if isinstance(action_space, spaces.Tuple):
        return spaces.Tuple([mask_space(space) for space in action_space.spaces])
    if not (size := mask_size(action_space)):
        raise ConfigError(f"the action space is {action_space}: Discrete, MultiDiscrete and MultiBinary can be masked")
    return spaces.MultiBinary(size)


def flat_masks(space: Space[Any], given: Any) -> Any:
    """Return masks in gymnasium's form as new values of a `mask_space`; None allows everything.

    A MultiDiscrete may have a mask for each member.

    Raises:
        ValueError: their structure or their number of entries is another one.
    """
    if isinstance(space, spaces.Dict):
        given = {} if given is None else given
        if not isinstance(given, Mapping) or any(given[key] is not None for key in given if key not in space.spaces):
            raise ValueError(f"a dict with masks for {', '.join(space.spaces)} is needed, got {given!r:.80}")
        return {key: flat_masks(child, given.get(key)) for key, child in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        given = [None] * len(space.spaces) if given is None else given
        if not isinstance(given, tuple | list) or len(given) != len(space.spaces):
            raise ValueError(f"{len(space.spaces)} masks are needed, got {given!r:.80}")
        return tuple(map(flat_masks, space.spaces, given))
    if given is None:
        return np.ones(space.shape or (), np.int8)
    members = [np.ravel(each) for each in given] if isinstance(given, tuple | list) else [np.ravel(given)]
    mask = np.concatenate(members)
    if mask.shape != space.shape:
        raise ValueError(f"a mask of {mask.size} entries for {mask_size(space)} choices")
    if mask.dtype.kind not in "biuf" or not ((mask == 0) | (mask == 1)).all():
        raise ValueError(f"a mask whose entries are not 0 and 1: {given!r:.80}")
    return mask.astype(np.int8)
