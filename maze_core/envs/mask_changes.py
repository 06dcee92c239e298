"""Whether the action mask has changed since an action was chosen, for wrappers that take the action again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from maze_core.envs.codecs import follow
from maze_core.envs.masks import masks_among

_Path = tuple[Any, ...]


class MaskChanges:
    """Reads the action masks of observations, and tells whether they are those of the observation before.

    Args:
        observation_space: of an environment, or of an agent. It may have parts that Maze refuses.
        action_space: likewise.
    """

    def __init__(self, observation_space: Space[Any], action_space: Space[Any]) -> None:
        places = {"/".join(map(str, path)): path for path in _paths(observation_space)}
        self._places = [places[key] for key in sorted(masks_among(places, action_space))]
        self._last: list[Any] = []

    def look(self, observation: Any) -> bool:
        """Remember the masks of an observation; return True if they differ from those before."""
        before, self._last = self._last, [np.array(follow(observation, path)) for path in self._places]
        return not all(map(np.array_equal, before, self._last))


def _paths(space: Space[Any], path: _Path = ()) -> Iterator[_Path]:
    if isinstance(space, spaces.Dict | spaces.Tuple):
        children = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        for key, child in children:
            yield from _paths(child, (*path, key))
    else:
        yield path
