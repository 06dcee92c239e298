"""An agent's observations as Maze takes them: with its mask, its number, and boards as vectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from maze_core.envs.masks import MASK, flat_masks
from maze_core.envs.spaces import is_image
from maze_core.errors import RunError

AGENT = "agent"
"""The leaf with the one-hot encoded number of the agent."""
_BOARD = 32
# Cells per side up to which an array of three dimensions is a board, not a picture.


class Observer:
    """Turns the observations of one agent into those of its `space`.

    Args:
        space: the agent's observation space in PettingZoo.
        masks: space of the masks that are in the agent's info; None: they are in the observation, or there are none.
        code: the agent's number, one-hot encoded, to add; None: nothing.
        flatten_boards: turn small arrays of three dimensions into vectors.
    """

    def __init__(
        self, space: Space[Any], masks: Space[Any] | None, code: np.ndarray | None, *, flatten_boards: bool
    ) -> None:
        self._masks, self._code = masks, code
        parts = dict(space.spaces) if isinstance(space, spaces.Dict) else {"observation": space}
        self._boards = [key for key, part in parts.items() if flatten_boards and _is_board(part)]
        parts |= {key: spaces.flatten_space(parts[key]) for key in self._boards}
        if masks is not None:
            parts[MASK] = masks
        if code is not None:
            parts[AGENT] = spaces.MultiBinary(len(code))
        self._is_dict = isinstance(space, spaces.Dict)
        self._stays_single = not self._is_dict and len(parts) == 1
        self.space: Space[Any] = parts["observation"] if self._stays_single else spaces.Dict(parts)

    def observed(self, observation: Any, info: Mapping[str, Any]) -> Any:
        """Return an observation of `space`; where the info has no mask, everything is allowed."""
        parts = dict(observation) if self._is_dict else {"observation": observation}
        for key in self._boards:
            parts[key] = np.ravel(parts[key])
        if self._masks is not None:
            try:
                parts[MASK] = flat_masks(self._masks, info.get(MASK))
            except ValueError as error:
                raise RunError(f"the info's {MASK!r} does not fit: {error}") from None
        if self._code is not None:
            parts[AGENT] = self._code
        return parts["observation"] if self._stays_single else parts


def has_mask(space: Space[Any]) -> bool:
    """Return True where an observation space holds a mask."""
    return isinstance(space, spaces.Dict) and MASK in space.spaces


def _is_board(space: Space[Any]) -> bool:
    return is_image(space) and isinstance(space, spaces.Box) and max(space.shape) < _BOARD
