"""An agent's observations as Maze takes them: with its mask, its number, and boards as vectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import Space, spaces
from maze_environments.mask_spaces import flat_masks

from maze_core.envs.checks import MisfitError, UnlikeSpaceError
from maze_core.envs.masks import MASK
from maze_core.envs.spaces import is_image

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
        self._boards = {key: part.shape for key, part in parts.items() if flatten_boards and _is_board(part)}
        parts |= {key: spaces.flatten_space(parts[key]) for key in self._boards}
        self._has_mask = MASK in parts or masks is not None
        if masks is not None:
            parts[MASK] = masks
        if code is not None:
            parts[AGENT] = spaces.MultiBinary(len(code))
        self._is_dict = isinstance(space, spaces.Dict)
        self._stays_single = not self._is_dict and len(parts) == 1
        self.space: Space[Any] = parts["observation"] if self._stays_single else spaces.Dict(parts)

    def observed(self, observation: Any, info: Mapping[str, Any]) -> Any:
        """Return an observation of `space`; where the info has no mask, everything is allowed.

        Raises:
            MisfitError: a board of another shape, or a mask that does not fit, or that no observation has room for.
        """
        if self._is_dict and not isinstance(observation, Mapping):
            return observation  # whoever stores it refuses it
        parts = dict(observation) if self._is_dict else {"observation": observation}
        for key in self._boards.keys() & parts.keys():
            if (shape := np.shape(parts[key])) != self._boards[key]:
                problem = f"shape {self._boards[key]} is declared, the value has shape {shape}"
                raise UnlikeSpaceError(key, problem)
            parts[key] = np.ravel(parts[key])
        if self._masks is not None:
            try:
                parts[MASK] = flat_masks(self._masks, info.get(MASK))
            except ValueError as error:
                raise MisfitError(f"an info whose {MASK!r} does not fit: {error}") from None
        elif not self._has_mask and info.get(MASK) is not None:
            problem = "which would be ignored, since no info had one at the first reset. Return it there too"
            raise MisfitError(f"an info with {MASK!r}, {problem}.")
        if self._code is not None:
            parts[AGENT] = self._code
        return parts["observation"] if self._stays_single else parts


def has_mask(space: Space[Any]) -> bool:
    """Return True where an observation space holds a mask."""
    return isinstance(space, spaces.Dict) and MASK in space.spaces


def _is_board(space: Space[Any]) -> bool:
    return is_image(space) and isinstance(space, spaces.Box) and max(space.shape) < _BOARD
