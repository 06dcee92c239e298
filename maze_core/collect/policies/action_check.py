"""Checks what a policy plugin returns: a rule is written by hand, and environments may misread a wrong action."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from maze_core.base.errors import RunError
from maze_core.base.terminal_text import shown
from maze_core.envs.spaces import flatten_space, leaf_spec

if TYPE_CHECKING:
    from gymnasium import Space

    from maze_core.base.tree import Tree


class ActionCheck:
    """Brings actions into storage dtype, and those of a Box inside its bounds; refuses all others.

    Args:
        action_space: of a single environment.
        title: the policy, for messages.
    """

    def __init__(self, action_space: Space[Any], title: str) -> None:
        self._title = title
        self._leaves = {key: _LeafCheck(key, leaf) for key, leaf in flatten_space(action_space, "action").items()}

    def __call__(self, chosen: Any, rows: int) -> Tree:
        """Return the actions of so many rows.

        Raises:
            RunError: a leaf is missing, or has another shape, other numbers or a value that is not in its space.
        """
        if not isinstance(chosen, Mapping) or chosen.keys() != self._leaves.keys():
            got = f"the keys {', '.join(map(repr, chosen))}" if isinstance(chosen, Mapping) else type(chosen).__name__
            wanted = ", ".join(map(repr, self._leaves))
            raise RunError(f"{self._title} returned {got}, and must return a dict of arrays with {wanted}")
        return {key: self._checked(leaf, chosen[key], rows) for key, leaf in self._leaves.items()}

    def _checked(self, leaf: _LeafCheck, value: Any, rows: int) -> np.ndarray:
        try:
            return leaf(np.asarray(value), rows)
        except ValueError as error:
            raise RunError(f"{self._title} returned for {leaf.key!r} {error}") from None


class _LeafCheck:
    """The check of one leaf."""

    def __init__(self, key: str, space: Space[Any]) -> None:
        self.key, self._space, spec = key, space, leaf_spec(space, "action")
        self._shape, self._dtype = spec.shape, spec.dtype
        self._kinds = "biuf" if isinstance(space, spaces.Box) else "biu"
        self._counts = _counts(space)

    def __call__(self, array: np.ndarray, rows: int) -> np.ndarray:
        """Return actions [rows, …] in storage dtype. Raises ValueError with the end of a sentence."""
        if array.shape != (rows, *self._shape):
            raise ValueError(f"an array of shape {list(array.shape)}, and must return {[rows, *self._shape]}")
        if array.dtype.kind not in self._kinds:
            raise ValueError(f"{array.dtype} values such as {shown(array.flat[0].item())}, which {self._space} has not")
        if isinstance(self._space, spaces.Box):
            if not np.isfinite(array).all():
                raise ValueError("a number that is not finite")
            inside: np.ndarray = np.clip(array, self._space.low, self._space.high)
            return inside.astype(self._dtype, copy=False)
        if not ((array >= 0) & (array < self._counts)).all():
            wrong = array[(array < 0) | (array >= self._counts)][0]
            raise ValueError(f"{wrong}, which {self._space} has not; its values are counted from 0")
        return array.astype(self._dtype, copy=False)


def _counts(space: Space[Any]) -> Any:
    """Return how many values a discrete leaf has, or each of its members; 0 for a Box."""
    if isinstance(space, spaces.Discrete):
        return int(space.n)
    if isinstance(space, spaces.MultiDiscrete):
        return np.asarray(space.nvec)
    return 2 if isinstance(space, spaces.MultiBinary) else 0
