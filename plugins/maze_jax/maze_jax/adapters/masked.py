"""Masks of allowed actions, in the form that Maze takes."""

from __future__ import annotations

from typing import Any

from gymnasium import Space, spaces
from maze_environments.mask_spaces import mask_space

from maze_core.envs.masks import MASK


def flat_mask(jnp: Any, actions: Space[Any], parts: dict[str, Any]) -> dict[str, Any]:
    """Return the parts of an observation with the mask as int8 [number of choices].

    A mask of combinations of the parts of a MultiDiscrete action becomes one for each part, which allows a choice
    where some combination with it is allowed. The environment decides what the others do.
    """
    mask = parts.get(MASK)
    if mask is None:
        return parts
    if isinstance(actions, spaces.MultiDiscrete):
        sizes = tuple(int(count) for count in actions.nvec)
        if tuple(mask.shape) == sizes:
            ways = [tuple(other for other in range(len(sizes)) if other != axis) for axis in range(len(sizes))]
            mask = jnp.concatenate([mask.any(axis=others) for others in ways])
    return {**parts, MASK: mask.reshape(-1).astype(jnp.int8)}


def mask_of(actions: Space[Any], seen: Space[Any]) -> Space[Any]:
    """Return an observation space in which the mask, if there is one, has the space of the action's masks."""
    if not isinstance(seen, spaces.Dict) or MASK not in seen.spaces:
        return seen
    own = mask_space(actions)
    if own.shape != seen.spaces[MASK].shape:  # of another form: an observation like any other
        return spaces.Dict({("mask" if key == MASK else key): each for key, each in seen.spaces.items()})
    return spaces.Dict({**seen.spaces, MASK: own})
