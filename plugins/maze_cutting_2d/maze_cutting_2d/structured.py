"""The structured forms: one decision of two actors, `select` a piece, then `cut` it."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from maze_cutting_2d.config import CuttingConfig
from maze_cutting_2d.episode import Episode
from maze_cutting_2d.geometry import WAYS
from maze_cutting_2d.observation import Observation, View
from maze_cutting_2d.reports import cutting_events, report
from maze_cutting_2d.shop import fitting_ways

SELECT, CUT = "select", "cut"
ACTORS = (SELECT, CUT)


class StructuredCutting:
    """Serve orders from as few sheets as possible, with two actors per order.

    `select` chooses a slot of the stock. `cut` sees in addition the chosen `piece` (width, height, 1 if it is a fresh
    sheet) and chooses `2 * turned + across`. The reward comes after the cut: -1 if it took a fresh sheet. With the
    same choices an episode is that of the forms `flat` and `masked`, whose action is `4 * slot + 2 * turned + across`.

    Without masks, an order that fits only the other way round is turned, and a piece that it does not fit at all is
    replaced by a fresh sheet, which `cut` sees.

    Args:
        config: the parameters; its `form` is not read.
        masked: give each actor an `action_mask`.
    """

    def __init__(self, config: CuttingConfig, *, masked: bool) -> None:
        self._config, self._masked, self._view = config, masked, View(config)
        self.action_spaces: dict[str, spaces.Space[Any]] = {
            SELECT: spaces.Discrete(config.inventory),
            CUT: spaces.Discrete(len(WAYS)),
        }
        """The action space of each actor."""
        piece = {"piece": spaces.Box(0.0, 1.0, (3,), np.float32)}
        self.observation_spaces: dict[str, spaces.Dict] = {
            SELECT: spaces.Dict(self._view.spaces | self._mask_space(config.inventory)),
            CUT: spaces.Dict(self._view.spaces | piece | self._mask_space(len(WAYS))),
        }
        """The observation space of each actor."""
        self.to_move = SELECT
        """The actor whose turn it is."""
        self.events = cutting_events()

    def reset(self, rng: np.random.Generator) -> Observation:
        """Draw the orders of an episode and return the observation of `select`."""
        self.episode = Episode(self._config, rng)
        self.to_move, self._slot = SELECT, 0
        return self._observe()

    def step(self, action: int) -> tuple[Observation, float, bool]:
        """Take the action of the actor whose turn it is.

        Returns:
            The observation of the next actor, the reward, and whether all orders are served; the last observation is
            one of `select`, which does not act any more.
        """
        shop = self.episode.shop
        if self.to_move == SELECT:
            self._slot = int(action) if any(fitting_ways(shop, int(action))) else 0
            self.to_move = CUT
            return self._observe(), 0.0, False
        scrapped = len(shop.scrap)
        fresh = shop.serve(*shop.possible(self._slot, WAYS[int(action)]))
        report(self.events, shop, fresh, scrapped)
        self.to_move = SELECT
        return self._observe(), -float(fresh), shop.done

    def _observe(self) -> Observation:
        shop = self.episode.shop
        seen = self._view.see(shop, self.episode.catalogue)
        if self.to_move == CUT:
            seen["piece"] = self._view.piece(shop, self._slot)
        if self._masked:
            seen["action_mask"] = self._mask()
        return seen

    def _mask(self) -> np.ndarray:
        """Return the possible actions of the actor whose turn it is, int8; all after the last order."""
        shop = self.episode.shop
        if self.to_move == CUT:
            return np.array(fitting_ways(shop, self._slot), np.int8)
        if shop.done:
            return np.ones(self._config.inventory, np.int8)
        fitting = [any(fitting_ways(shop, slot)) for slot in range(len(shop.pieces))]
        return np.array(fitting + [False] * (self._config.inventory - len(fitting)), np.int8)

    def _mask_space(self, size: int) -> dict[str, spaces.Space[Any]]:
        return {"action_mask": spaces.MultiBinary(size)} if self._masked else {}
