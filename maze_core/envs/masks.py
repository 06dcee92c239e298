"""Action masks in observations: where they are, and whether they leave a choice."""

from __future__ import annotations

from collections.abc import Container, Iterable
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


def mask_leaves(observation_space: Space[Any], action_space: Space[Any]) -> Masks:
    """Return the observation leaves that mask actions, by action leaf, for the actions that have a mask.

    Raises:
        ConfigError: a mask for a Box action, two masks for one action, a mask of another form than its action needs,
            or a leaf that is named like an action mask but masks no action.
    """
    found: Masks = {}
    if not isinstance(observation_space, spaces.Dict | spaces.Tuple):
        return found  # a mask has a name
    from maze_core.envs.mask_forms import fitting, misfit, resembles_mask  # single observations do without

    observed, actions = flatten_space(observation_space, "observation"), leaves(action_space, "action")
    for action in actions:
        for members in _found(action, observed):
            problem = misfit(action, members, observed)
            if action.key in found:
                problem = f"{found[action.key][0]!r} masks it already"
            if problem:
                raise ConfigError(
                    f"the observation's leaf {members[0]!r} masks the action {action.key!r} ({action.space}), but "
                    f"{problem}",
                    "env",
                    f"A mask has a 1 for each choice that is allowed, else 0. {fitting([action])}",
                )
            found[action.key] = members
    used = {key for members in found.values() for key in members}
    for key, space in observed.items():
        if key not in used and not is_for_critics(key) and resembles_mask(key, space, actions):
            raise ConfigError(
                f"the observation's leaf {key!r} ({space}) is named like an action mask, but masks no action",
                "env",
                f"{fitting(actions)} A leaf that is no mask needs another name, or is left out: --wrappers drop"
                f" --set 'wrappers.0.keys=[{key}]'",
            )
    return found


def masks_among(observed: Iterable[str], action_space: Space[Any]) -> set[str]:
    """Return those of the leaves of an observation that are masks, whatever their form."""
    keys = set(observed)
    found = (_found(action, keys) for action in leaves(action_space, "action"))
    return {key for places in found for members in places for key in members if key in keys}


def mask_size(space: Space[Any]) -> int:
    """Return the entries of an action leaf's mask: one per choice (flat for MultiDiscrete) or bit; 0: no mask."""
    return sum(member_sizes(space))


def member_sizes(space: Space[Any]) -> list[int]:
    """Return the mask's entries for each member of an action leaf; none for one that cannot be masked."""
    if isinstance(space, spaces.MultiDiscrete):
        return [int(n) for n in space.nvec]
    return [int(np.prod(space.n))] if isinstance(space, spaces.Discrete | spaces.MultiBinary) else []


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


def places_of(action: Leaf) -> list[str]:
    """Return the keys at which an action's mask may be: `KEY_mask`, or its path with `action_mask` at any level."""
    parts = [str(part) for part in action.path]
    levels = ["/".join([*parts[:level], MASK, *parts[level:]]) for level in range(len(parts) + 1)]
    return list(dict.fromkeys([f"{action.key}_mask", *levels]))


def _found(action: Leaf, observed: Container[str]) -> list[tuple[str, ...]]:
    """Return the masks of an action, each as the leaves that it consists of; some of its members' may be missing."""
    found: list[tuple[str, ...]] = []
    for place in places_of(action):
        members = tuple(f"{place}/{i}" for i in range(len(member_sizes(action.space))))
        if place in observed:
            found.append((place,))
        elif isinstance(action.space, spaces.MultiDiscrete) and any(key in observed for key in members):
            found.append(members)
    return found
