"""Which forms of a mask fit an action, and which leaves of an observation are named like masks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from maze_core.base.errors import ConfigError
from maze_core.envs.masks import MASK, mask_size, masks_among, member_sizes, places_of
from maze_core.envs.spaces import Leaf, flatten_space, leaves

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_MASKS = {"mask", "masks", "masking"}
_ACTIONS = {"action", "actions", "act", "acts"}
_CHOICES = _ACTIONS | {"move", "moves", "choice", "choices"}
_ALLOWED = {
    *("legal", "illegal", "valid", "invalid", "validity", "allowed", "forbidden", "masked", "feasible", "infeasible"),
    *("avail", "available", "availability", "unavailable", "possible", "impossible", "permitted", "prohibited"),
    *("enabled", "disabled", "blocked"),
}
_SHOWN = 6


def misfit(action: Leaf, members: tuple[str, ...], observed: Mapping[str, Space[Any]]) -> str | None:
    """Return why a mask does not fit its action, as the end of a sentence; None where it does."""
    sizes = member_sizes(action.space)
    if not sizes:
        return "a Box action cannot be masked"
    one = len(members) == 1
    for key, wanted in zip(members, [sum(sizes)] if one else sizes, strict=True):
        if key not in observed:
            return f"the mask {key!r} of one of its members is missing"
        space = observed[key]
        shape = tuple(space.shape or ())
        if isinstance(space, spaces.Discrete) or int(np.prod(shape)) != wanted:
            return f"{'it' if one else repr(key)} needs {wanted} entries, not those of {space}"
        if one and len(sizes) > 1 and len(shape) > 1 and any(shape != (len(sizes), size) for size in sizes):
            return f"it needs {wanted} entries in a row, member after member, not the shape {shape}"
        if not _is_binary(space):
            return f"{'its' if one else repr(key)} values are not declared as 0 and 1, but as {space}"
    return None


def check_kept(before: Any, after: Any, wrapper: str) -> None:
    """Raise ConfigError if a wrapper leaves no mask of an environment in its observation, though choices remain."""
    try:
        masks, left = (masks_among(flatten_space(e.observation_space, "observation"), e.action_space)
                       for e in (before, after))  # fmt: skip
        choices = any(member_sizes(action.space) for action in leaves(after.action_space, "action"))
    except ConfigError:
        return  # what is not supported is refused later, or converted
    if masks and not left and choices:
        raise ConfigError(
            f"{wrapper} takes the action mask {min(masks)!r} out of the observation, or mixes it with other values",
            None,
            "Forbidden actions would be taken. Use one of Maze's own wrappers, which leave masks alone, or one that "
            "keeps this leaf. To do without the mask, put the wrapper drop before it.",
        )


def _is_binary(space: Space[Any]) -> bool:
    """Return True for a leaf whose values are 0 and 1."""
    if isinstance(space, spaces.Box):
        low, high = np.asarray(space.low, np.float64), np.asarray(space.high, np.float64)
        return bool((low >= 0).all() and (high <= 1).all())
    if isinstance(space, spaces.MultiDiscrete):
        return bool((space.nvec <= 2).all() and not np.any(space.start))
    return isinstance(space, spaces.MultiBinary)


def is_mask_like(space: Space[Any]) -> bool:
    """Return True for a row of at least two zeros and ones."""
    shape = space.shape or ()
    return _is_binary(space) and len(shape) == 1 and shape[0] > 1


def resembles_mask(key: str, space: Space[Any], actions: list[Leaf]) -> bool:
    """Return True for a leaf that is at the place of a mask or named like one.

    A name with `mask` and `action` is enough. Other names, as `legal_moves`, or `arm_mask` at another place than the
    mask of the action `arm`, must belong to a row of zeros and ones too: a picture may have them. So must a path that
    names an action and `mask` apart, as `mask/arm`, and have as many entries as the mask of the action or of a member.
    """
    places = [place for action in actions for place in places_of(action)]
    if any(key == place or key.startswith(f"{place}/") for place in places):
        return True
    named = {str(action.path[-1]).lower() for action in actions if action.path}
    row = is_mask_like(space)
    if row and any(_names(key, action) and space.shape[0] in _entries(action.space) for action in actions):  # type: ignore[index]
        return True
    for part in key.split("/"):
        words = _words(part)
        if (words & _ACTIONS and words & _MASKS) or any(re.fullmatch("actions?masks?", word) for word in words):
            return True
        if row and words & _CHOICES and words & (_MASKS | _ALLOWED):
            return True
        if row and any(part.lower() in (f"{name}_mask", f"{name}_masks", f"mask_{name}") for name in named):
            return True
    return False


def _words(text: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(text)}


def _names(key: str, action: Leaf) -> bool:
    """Return True for a key with a word for masks and all words of an action's own name."""
    words = _words(key)
    return bool(action.path and words & _MASKS and _words(str(action.path[-1])) <= words)


def _entries(space: Space[Any]) -> set[int]:
    """Return how many entries a mask of an action, or of one of its members, has."""
    return {mask_size(space), *member_sizes(space)}


def fitting(actions: list[Leaf]) -> str:
    """Return the masks that would fit some actions, as a sentence."""
    forms = [f"{places_of(action)[0]!r}: {_form(action.space)}" for action in actions if member_sizes(action.space)]
    if not forms:
        return "Box actions cannot be masked."
    more = f"; and {len(forms) - _SHOWN} more" if len(forms) > _SHOWN else ""
    also = f". Or a Dict or Tuple {MASK!r} with their masks" if len(actions) > 1 else ""
    return f"What fits is {'; '.join(forms[:_SHOWN])}{more}{also}."


def _form(space: Space[Any]) -> str:
    if not isinstance(space, spaces.MultiDiscrete):
        return f"MultiBinary({mask_size(space)})"
    sizes = member_sizes(space)
    members = ", ".join(f"MultiBinary({size})" for size in sizes[:_SHOWN]) + (", …" if len(sizes) > _SHOWN else "")
    return f"MultiBinary({mask_size(space)}), or Tuple([{members}])"
