"""The forms `flat` and `masked`: one action is piece, rotation and order of the cuts."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from maze_cutting_2d.config import CuttingConfig
from maze_cutting_2d.episode import Episode
from maze_cutting_2d.geometry import WAYS
from maze_cutting_2d.observation import Observation, View
from maze_cutting_2d.reports import cutting_events, report
from maze_cutting_2d.shop import fitting_ways


class Cutting(gymnasium.Env[Observation, np.int64]):
    """Serve orders from as few sheets as possible: each fresh sheet costs 1.

    An action is `4 * slot + 2 * turned + across`: the slot of the piece to cut from, whether the order is turned by a
    quarter, and whether the first cut runs across the whole width of the piece.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 4}  # noqa: RUF012 — gymnasium's own attribute

    def __init__(self, config: CuttingConfig, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self._config, self._view = config, View(config)
        self.events = cutting_events()
        leaves = self._view.spaces
        if config.form == "masked":
            leaves["action_mask"] = spaces.MultiBinary(config.inventory * len(WAYS))
        self.observation_space = spaces.Dict(leaves)
        self.action_space = spaces.Discrete(config.inventory * len(WAYS))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Observation, dict[str, Any]]:
        """Draw the orders of an episode; the stock is one fresh sheet."""
        super().reset(seed=seed)
        self.episode = Episode(self._config, self.np_random)
        return self._observe(), {}

    def step(self, action: np.int64) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Serve the current order."""
        shop = self.episode.shop
        slot, way = divmod(int(action), len(WAYS))
        scrapped = len(shop.scrap)
        fresh = shop.serve(*shop.possible(slot, WAYS[way]))
        report(self.events, shop, fresh, scrapped)
        return self._observe(), -float(fresh), shop.done, False, {}

    def render(self) -> np.ndarray | None:
        """Return a picture of the sheets, uint8 [height, width, 3]."""
        from maze_cutting_2d.picture import picture

        return picture(self.episode.shop) if self.render_mode == "rgb_array" else None

    def _observe(self) -> Observation:
        seen = self._view.see(self.episode.shop, self.episode.catalogue)
        if self._config.form == "masked":
            seen["action_mask"] = self._mask()
        return seen

    def _mask(self) -> np.ndarray:
        """Return the possible actions, int8; all after the last order."""
        shop = self.episode.shop
        mask = np.zeros((self._config.inventory, len(WAYS)), np.int8)
        if shop.done:
            mask[:] = 1
            return mask.reshape(-1)
        for slot in range(len(shop.pieces)):
            mask[slot] = fitting_ways(shop, slot)
        return mask.reshape(-1)
