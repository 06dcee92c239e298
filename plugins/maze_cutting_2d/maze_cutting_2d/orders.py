"""Draws the catalogue and the orders of an episode."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from maze_cutting_2d.geometry import Size


def draw_catalogue(rng: np.random.Generator, sheet: Size, count: int) -> list[Size]:
    """Return random sizes: sides from a fifth to three fifths of the sheet's, not turned."""
    low, high = (np.array(sheet) + 4) // 5, np.array(sheet) * 3 // 5
    return [Size(*(int(side) for side in rng.integers(low, high, endpoint=True))) for _ in range(count)]


def draw_orders(rng: np.random.Generator, catalogue: Sequence[Size], count: int) -> list[Size]:
    """Return orders, each of a size of the catalogue with equal probability."""
    return [catalogue[i] for i in rng.integers(len(catalogue), size=count)]
