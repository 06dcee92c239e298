"""The policy `cutting_best_fit`: the smallest piece that fits, cut so that the largest remainder is left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from maze_core import ActingPolicy, ConfigError
from maze_cutting_2d.geometry import WAYS

if TYPE_CHECKING:
    from gymnasium import Space

    from maze_core import Tree

_EDGE = 1e-5
"""What counts as equal lengths, in units of the sheet's longer side: observations are rounded to float32."""


class BestFit(ActingPolicy):
    """Serve each order from the smallest piece that holds it, a fresh sheet only if no other does.

    It tries both rotations and both orders of the cuts and takes the way that leaves the largest remainder; of equal
    ones the first. It looks neither at the orders to come nor at the sizes that orders have.
    """

    def setup(self, observation_space: Space[Any], action_space: Space[Any]) -> None:
        """Accept the forms `flat` and `masked` of `cutting_2d`; refuse other spaces."""
        leaves = observation_space.spaces if isinstance(observation_space, spaces.Dict) else {}
        pieces = leaves.get("pieces")
        slots = len(WAYS) * (pieces.shape or (0,))[0] if pieces is not None else 0
        chosen = isinstance(action_space, spaces.Discrete) and action_space.n == slots
        if not chosen or not {"order", "pieces_present"} <= set(leaves):
            raise ConfigError(
                f"cutting_best_fit does not support observations {observation_space} with actions {action_space}",
                "env",
                "It supports the env source cutting_2d in its forms flat and masked.",
            )

    def act(self, obs: Tree, rngs: Sequence[np.random.Generator]) -> Tree:
        """Return one action for each row."""
        rows = zip(obs["pieces"], obs["pieces_present"], obs["order"], strict=True)
        return {"action": np.array([best_fit(*row) for row in rows], np.int64)}


def best_fit(pieces: np.ndarray, present: np.ndarray, order: np.ndarray) -> int:
    """Return the action `4 * slot + way` for pieces [K, 3] (width, height, fresh) and an order [2]."""
    count = int(np.count_nonzero(present))
    best, action = (np.inf, np.inf, np.inf), 0
    for slot, (width, height, fresh) in enumerate(pieces[:count].astype(float)):
        for number, way in enumerate(WAYS):
            across_side, along_side = order[::-1] if way.turned else order
            right, above = width - float(across_side), height - float(along_side)
            if min(right, above) < -_EDGE:
                continue
            largest = largest_remainder(width, height, right, above, way.across)
            rank = (fresh, round(width * height, 6), -round(largest, 6))
            if rank < best:
                best, action = rank, len(WAYS) * slot + number
    return action


def largest_remainder(width: float, height: float, right: float, above: float, across: bool) -> float:
    """Return the area of the larger remainder, where `right` and `above` of a piece are left beside an order."""
    if across:
        return max(width * above, right * (height - above))
    return max(right * height, (width - right) * above)
