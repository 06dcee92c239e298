"""What a policy sees of the shop, as spaces and arrays. Lengths are in units of the sheet's longer side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from maze_cutting_2d.config import CuttingConfig
from maze_cutting_2d.geometry import Size
from maze_cutting_2d.shop import Shop

Observation = dict[str, Any]


class View:
    """The observation that all forms share.

    | leaf | shape | contents |
    |---|---|---|
    | `order` | 2 | width and height of the current order |
    | `orders_left` | 1 | the share of the episode's orders that are left |
    | `pieces` | inventory × 3 | width, height, 1 for the fresh sheet; zeros where there is no piece |
    | `pieces_present` | inventory | 1 where there is a piece |
    | `upcoming` | known × 3 | width, height and place (1 is next, towards 0) of the orders after the current one |
    | `upcoming_present` | known | 1 where there is such an order |
    | `catalogue` | sizes × 2 | width and height of each size; only for random instances |
    """

    def __init__(self, config: CuttingConfig) -> None:
        self._config = config
        self._unit = float(max(config.sheet))

    @property
    def spaces(self) -> dict[str, spaces.Space[Any]]:
        """The spaces of the leaves."""
        config = self._config
        leaves: dict[str, spaces.Space[Any]] = {
            "order": _box(2),
            "orders_left": _box(1),
            "pieces": _box(config.inventory, 3),
            "pieces_present": spaces.MultiBinary(config.inventory),
        }
        if config.known:
            leaves |= {"upcoming": _box(config.known, 3), "upcoming_present": spaces.MultiBinary(config.known)}
        if config.instances == "random":
            leaves["catalogue"] = _box(len(config.catalogue), 2)
        return leaves

    def see(self, shop: Shop, catalogue: Sequence[Size]) -> Observation:
        """Return the observation; zeros for an order after the last."""
        config, orders = self._config, shop.orders
        seen: Observation = {
            "order": self.size(orders[0]) if orders else np.zeros(2, np.float32),
            "orders_left": np.array([len(orders) / config.orders], np.float32),
        }
        pieces = [self.piece(shop, slot) for slot in range(len(shop.pieces))]
        seen["pieces"], seen["pieces_present"] = _padded(pieces, config.inventory)
        if config.known:
            next_ones = orders[1 : 1 + config.known]
            rows = [np.append(self.size(size), np.float32(1 - i / config.known)) for i, size in enumerate(next_ones)]
            seen["upcoming"], seen["upcoming_present"] = _padded(rows, config.known)
        if config.instances == "random":
            seen["catalogue"] = np.array(catalogue, np.float32) / self._unit
        return seen

    def size(self, size: Size) -> np.ndarray:
        """Return width and height, float32 [2]."""
        return np.array(size, np.float32) / self._unit

    def piece(self, shop: Shop, slot: int) -> np.ndarray:
        """Return width, height and 1 for the fresh sheet, float32 [3]."""
        return np.append(self.size(shop.pieces[slot].size), np.float32(slot == 0))


def _padded(rows: Sequence[np.ndarray], count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows with zeros after them, float32 [count, 3], and which of them there are, int8 [count]."""
    values, present = np.zeros((count, 3), np.float32), np.zeros(count, np.int8)
    if rows:
        values[: len(rows)] = rows
        present[: len(rows)] = 1
    return values, present


def _box(*shape: int) -> spaces.Box:
    return spaces.Box(0.0, 1.0, shape, np.float32)
