"""A picture of the sheets: what was sold in colours, what is in stock in white, scrap in gray."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from maze_cutting_2d.geometry import Piece, Size
from maze_cutting_2d.shop import Shop

_SIDE = 96
"""The longer side of a sheet, in pixels."""
_COLUMNS = 6
_ROOM = 1.5
"""Sheets that are shown, as a multiple of those needed without waste."""
_MAX_ROWS = 20
_GAP = 8
_LINE = np.array((60, 60, 66), np.uint8)
_FREE, _SCRAP, _PAPER = (np.array(colour, np.uint8) for colour in ((252, 252, 250), (178, 178, 184), (228, 228, 232)))
_COLOURS = np.array(
    [(92, 141, 198), (228, 148, 84), (108, 176, 122), (196, 104, 110), (150, 122, 190), (196, 178, 88), (96, 178, 184)],
    np.uint8,
)


def picture(shop: Shop) -> np.ndarray:
    """Return an image, uint8 [height, width, 3], of the last sheets in rows; its size is the same all the episode.

    Equal sizes of orders, turned or not, have the same colour. The fresh sheet in stock is not drawn.
    """
    rows = min(_MAX_ROWS, math.ceil(_ROOM * shop.least_sheets / _COLUMNS))
    scale = _SIDE / max(shop.sheet)
    across, down = (math.ceil(side * scale) + _GAP for side in shop.sheet)
    height, width = rows * down + _GAP, _COLUMNS * across + _GAP
    image = np.empty((height + height % 2, width + width % 2, 3), np.uint8)  # films need even sides
    image[:] = _PAPER
    first = max(0, shop.sheets - rows * _COLUMNS)
    colours = _colours(shop.sold)
    drawn = [(piece, colours[_key(piece)]) for piece in shop.sold]
    drawn += [(piece, _FREE) for piece in shop.pieces[1:]] + [(piece, _SCRAP) for piece in shop.scrap]
    for piece, colour in drawn:
        if piece.sheet >= first:
            row, column = divmod(piece.sheet - first, _COLUMNS)
            sheet = image[_GAP + row * down : (row + 1) * down, _GAP + column * across : (column + 1) * across]
            _draw(sheet, piece, scale, colour)
    return image


def _draw(sheet: np.ndarray, piece: Piece, scale: float, colour: np.ndarray) -> None:
    """Fill a piece's part of its sheet's image, with a line around it."""
    left, right = round(piece.x * scale), round((piece.x + piece.size.width) * scale)
    top, bottom = round(piece.y * scale), round((piece.y + piece.size.height) * scale)
    inside = sheet[top:bottom, left:right]
    inside[:] = _LINE
    inside[1:-1, 1:-1] = colour


def _colours(sold: Iterable[Piece]) -> dict[Size, np.ndarray]:
    keys = sorted({_key(piece) for piece in sold})
    return {key: _COLOURS[number % len(_COLOURS)] for number, key in enumerate(keys)}


def _key(piece: Piece) -> Size:
    return max(piece.size, piece.size.turned)
