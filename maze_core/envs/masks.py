"""Action masks in observations: where they are, which forms fit an action, and whether they leave a choice."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from gymnasium import Space, spaces

from maze_core.base.errors import ConfigError, RunError
from maze_core.base.tree import Tree
from maze_core.envs.actors import is_for_critics
from maze_core.envs.spaces import Leaf, flatten_space, leaves

MASK = "action_mask"
"""The name of a mask: of a single action, or of a Dict or Tuple of masks for the members of an action."""

Masks = dict[str, tuple[str, ...]]
"""Action leaf → the observation leaves of its mask: one, or one for each member of a MultiDiscrete action."""

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


def mask_leaves(observation_space: Space[Any], action_space: Space[Any]) -> Masks:
    """Return the observation leaves that mask actions, by action leaf, for the actions that have a mask.

    Raises:
        ConfigError: a mask for a Box action, two masks for one action, a mask of another form than its action needs,
            or a leaf that is named like an action mask but masks no action.
    """
    found: Masks = {}
    if not isinstance(observation_space, spaces.Dict | spaces.Tuple):
        return found  # a mask has a name
    observed, actions = flatten_space(observation_space, "observation"), leaves(action_space, "action")
    for action in actions:
        for members in _found(action, observed):
            problem = _problem(action, members, observed)
            if action.key in found:
                problem = f"{found[action.key][0]!r} masks it already"
            if problem:
                raise ConfigError(
                    f"the observation's leaf {members[0]!r} masks the action {action.key!r} ({action.space}), but "
                    f"{problem}",
                    "env",
                    f"A mask has a 1 for each choice that is allowed, else 0. {_fitting([action])}",
                )
            found[action.key] = members
    used = {key for members in found.values() for key in members}
    for key, space in observed.items():
        if key not in used and not is_for_critics(key) and _resembles_mask(key, space, actions):
            raise ConfigError(
                f"the observation's leaf {key!r} ({space}) is named like an action mask, but masks no action",
                "env",
                f"{_fitting(actions)} A leaf that is no mask needs another name, or is left out: --wrappers drop"
                f" --set 'wrappers.0.keys=[{key}]'",
            )
    return found


def masks_among(observed: Iterable[str], action_space: Space[Any]) -> set[str]:
    """Return those of the leaves of an observation that are masks, whatever their form."""
    keys = set(observed)
    found = (_found(action, keys) for action in leaves(action_space, "action"))
    return {key for places in found for members in places for key in members if key in keys}


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


def mask_size(space: Space[Any]) -> int:
    """Return the entries of an action leaf's mask: one per choice (flat for MultiDiscrete) or bit; 0: no mask."""
    return sum(member_sizes(space))


def member_sizes(space: Space[Any]) -> list[int]:
    """Return the mask's entries for each member of an action leaf; none for one that cannot be masked."""
    if isinstance(space, spaces.MultiDiscrete):
        return [int(n) for n in space.nvec]
    return [int(np.prod(space.n))] if isinstance(space, spaces.Discrete | spaces.MultiBinary) else []


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


class NoChoice(NamedTuple):
    """A mask that forbids every choice, and its row."""

    leaf: str
    problem: str
    row: int
    rows: int


class MaskCheck:
    """Finds masks that forbid every choice of an action. MultiBinary actions always allow 0.

    Args:
        observation_space: of a single environment.
        action_space: likewise.
    """

    def __init__(self, observation_space: Space[Any], action_space: Space[Any]) -> None:
        found, actions = mask_leaves(observation_space, action_space), flatten_space(action_space, "action")
        self.leaves: tuple[str, ...] = tuple(key for members in found.values() for key in members)
        """The leaves that are masks; empty where there are none."""
        self._parts: list[tuple[str, str, int, np.ndarray, int]] = []
        # Leaf, action, number of the first member, where the members begin, entries.
        for key, members in found.items():
            sizes = member_sizes(actions[key])
            if isinstance(actions[key], spaces.MultiBinary):
                continue
            for first, leaf in enumerate(members):
                own = sizes if len(members) == 1 else [sizes[first]]
                self._parts.append((leaf, key, first, np.cumsum([0, *own[:-1]]), sum(own)))

    def find(self, obs: Tree) -> NoChoice | None:
        """Return the first mask without a choice in observations with any leading dimensions; None: there is none."""
        for leaf, key, first, starts, entries in self._parts:
            rows = obs[leaf].reshape(-1, entries) != 0
            free = np.logical_or.reduceat(rows, starts, axis=1)
            if not free.all():
                row, member = (int(i) for i in np.argwhere(~free)[0])
                place = f", member {first + member}" if first or len(starts) > 1 else ""
                return NoChoice(
                    leaf, f"the mask {leaf!r} forbids every choice of action {key!r}{place}", row, len(rows)
                )
        return None

    def check(self, obs: Tree) -> None:
        """Raise RunError if a mask of observations forbids every choice; only masks are read."""
        if (closed := self.find(obs)) is not None:
            raise no_choice(f"{closed.problem} (row {closed.row} of {closed.rows})", closed.leaf)


def no_choice(problem: str, leaf: str) -> RunError:
    """Return the error for a mask, the observation's leaf `leaf`, that forbids every choice."""
    return RunError(
        f"{problem}\nNext: let the environment allow at least one action in each step, or end the episode there.\n"
        "An environment of others that accepts every action can be trained without its mask: --wrappers drop --set "
        f"'wrappers.0.keys=[{leaf}]', beside the keys that are dropped already"
    )


def _places(action: Leaf) -> list[str]:
    """Return the keys at which an action's mask may be: `KEY_mask`, or its path with `action_mask` at any level."""
    parts = [str(part) for part in action.path]
    levels = ["/".join([*parts[:level], MASK, *parts[level:]]) for level in range(len(parts) + 1)]
    return list(dict.fromkeys([f"{action.key}_mask", *levels]))


def _found(action: Leaf, observed: Container[str]) -> list[tuple[str, ...]]:
    """Return the masks of an action, each as the leaves that it consists of; some of its members' may be missing."""
    found: list[tuple[str, ...]] = []
    for place in _places(action):
        members = tuple(f"{place}/{i}" for i in range(len(member_sizes(action.space))))
        if place in observed:
            found.append((place,))
        elif isinstance(action.space, spaces.MultiDiscrete) and any(key in observed for key in members):
            found.append(members)
    return found


def _problem(action: Leaf, members: tuple[str, ...], observed: Mapping[str, Space[Any]]) -> str | None:
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


def _resembles_mask(key: str, space: Space[Any], actions: list[Leaf]) -> bool:
    """Return True for a leaf that is at the place of a mask or named like one.

    A name with `mask` and `action` is enough. Other names, as `legal_moves`, or `arm_mask` at another place than the
    mask of the action `arm`, must belong to a row of zeros and ones too: a picture may have them. So must a path that
    names an action and `mask` apart, as `mask/arm`, and have as many entries as the mask of the action or of a member.
    """
    places = [place for action in actions for place in _places(action)]
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


def _fitting(actions: list[Leaf]) -> str:
    """Return the masks that would fit some actions, as a sentence."""
    forms = [f"{_places(action)[0]!r}: {_form(action.space)}" for action in actions if member_sizes(action.space)]
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
