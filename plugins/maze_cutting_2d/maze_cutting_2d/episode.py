"""One episode: a catalogue, and a shop with its orders."""

from __future__ import annotations

import numpy as np

from maze_cutting_2d.config import CuttingConfig
from maze_cutting_2d.geometry import Size
from maze_cutting_2d.orders import draw_catalogue, draw_orders
from maze_cutting_2d.shop import Shop


class Episode:
    """The catalogue and the shop of an episode, drawn from a random generator."""

    def __init__(self, config: CuttingConfig, rng: np.random.Generator) -> None:
        sheet = Size(*config.sheet)
        if config.instances == "random":
            self.catalogue = draw_catalogue(rng, sheet, len(config.catalogue))
        else:
            self.catalogue = [Size(*sides) for sides in config.catalogue]
        self.shop = Shop(sheet, self.catalogue, draw_orders(rng, self.catalogue, config.orders), config.inventory)
