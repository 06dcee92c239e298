"""Rectangles and guillotine cuts: a cut goes straight through a piece, from one side to the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Size(NamedTuple):
    """Width and height, in whole units."""

    width: int
    height: int

    @property
    def area(self) -> int:
        """Width times height."""
        return self.width * self.height

    @property
    def turned(self) -> Size:
        """The size after a quarter turn."""
        return Size(self.height, self.width)

    def holds(self, other: Size) -> bool:
        """Return True if the other fits in without being turned."""
        return other.width <= self.width and other.height <= self.height


class Way(NamedTuple):
    """How an order is cut from a piece."""

    turned: bool
    """Turn the order by a quarter."""
    across: bool
    """The first cut runs across the whole width of the piece; False: along its whole height."""

    @property
    def other(self) -> Way:
        """The way with the order turned by another quarter."""
        return Way(not self.turned, self.across)


WAYS = tuple(Way(turned, across) for turned in (False, True) for across in (False, True))
"""All four ways; an action counts them in this order."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A rectangle of one sheet. Its corner with the smallest coordinates is at (x, y)."""

    sheet: int
    x: int
    y: int
    size: Size


class Cutting(NamedTuple):
    """The result of two cuts."""

    order: Piece
    remainders: tuple[Piece, ...]
    """At most two, none of them empty, the one that the first cut separated before the other."""


def cut(piece: Piece, order: Size, way: Way) -> Cutting:
    """Cut an order from the corner of a piece by two guillotine cuts; a cut along an edge is none.

    The first cut separates a remainder that spans the whole width (`way.across`) or the whole height of the piece; the
    second separates the order from the rest of the strip that it lies in.

    Raises:
        ValueError: the order does not fit.
    """
    wanted = order.turned if way.turned else order
    width, height = piece.size
    if not piece.size.holds(wanted):
        raise ValueError(f"an order of {wanted.width} by {wanted.height} does not fit a piece of {width} by {height}")
    right, above = width - wanted.width, height - wanted.height
    if way.across:
        rest = (Piece(piece.sheet, piece.x, piece.y + wanted.height, Size(width, above)),
                Piece(piece.sheet, piece.x + wanted.width, piece.y, Size(right, wanted.height)))  # fmt: skip
    else:
        rest = (Piece(piece.sheet, piece.x + wanted.width, piece.y, Size(right, height)),
                Piece(piece.sheet, piece.x, piece.y + wanted.height, Size(wanted.width, above)))  # fmt: skip
    kept = tuple(each for each in rest if each.size.area)
    return Cutting(Piece(piece.sheet, piece.x, piece.y, wanted), kept)
