"""The cutting shop: a stock of pieces, orders to be served one after the other, and the sheets used so far."""

from __future__ import annotations

import math
from collections.abc import Sequence

from maze_cutting_2d.geometry import WAYS, Piece, Size, Way, cut


class Shop:
    """Orders are cut from a stock whose slot 0 is always a fresh sheet; cutting it costs a sheet.

    The other slots are remainders, the largest first. A remainder that holds no size of the catalogue is scrap. So is
    the smallest one when there are more than `inventory` pieces.

    Args:
        sheet: the size of a fresh sheet.
        catalogue: the sizes that orders can have; each fits a sheet, perhaps turned.
        orders: the orders of this episode.
        inventory: the largest number of pieces, the fresh sheet included.
    """

    def __init__(self, sheet: Size, catalogue: Sequence[Size], orders: Sequence[Size], inventory: int) -> None:
        self.sheet = sheet
        self._sizes = {size for each in catalogue for size in (each, each.turned)}
        self._inventory = inventory
        self._orders = tuple(orders)
        self.pieces = [Piece(0, 0, 0, sheet)]
        """The stock by slot."""
        self.sold: list[Piece] = []
        """The orders cut so far; as many as were served."""
        self.scrap: list[Piece] = []
        """What will never be used."""

    @property
    def sheets(self) -> int:
        """The number of fresh sheets used so far."""
        return self.pieces[0].sheet

    @property
    def orders(self) -> tuple[Size, ...]:
        """The orders that are left, the current one first."""
        return self._orders[len(self.sold) :]

    @property
    def least_sheets(self) -> int:
        """The sheets that all orders of the episode would take without any waste: no policy needs fewer."""
        return math.ceil(sum(order.area for order in self._orders) / self.sheet.area)

    @property
    def done(self) -> bool:
        """True if all orders have been served."""
        return len(self.sold) == len(self._orders)

    def fits(self, slot: int, way: Way) -> bool:
        """Return True if the current order can be cut in this way from the piece in a slot."""
        order = self._orders[len(self.sold)]
        return slot < len(self.pieces) and self.pieces[slot].size.holds(order.turned if way.turned else order)

    def possible(self, slot: int, way: Way) -> tuple[int, Way]:
        """Return the choice itself where the order fits, else with the order turned, else both for a fresh sheet."""
        choices = ((slot, way), (slot, way.other), (0, way), (0, way.other))
        return next(choice for choice in choices if self.fits(*choice))

    def serve(self, slot: int, way: Way) -> bool:
        """Cut the current order and put the remainders into the stock; return True if it took a fresh sheet.

        Raises:
            ValueError: the order does not fit.
            IndexError: there is no piece in this slot, or no order is left.
        """
        piece = self.pieces[slot]
        order, remainders = cut(piece, self._orders[len(self.sold)], way)
        self.sold.append(order)
        if slot:
            del self.pieces[slot]
        else:
            self.pieces[0] = Piece(piece.sheet + 1, 0, 0, self.sheet)
        self._store(remainders)
        return slot == 0

    def _store(self, remainders: Sequence[Piece]) -> None:
        fresh, *stock = self.pieces
        for piece in remainders:
            useful = any(piece.size.holds(size) for size in self._sizes)
            (stock if useful else self.scrap).append(piece)
        stock.sort(key=lambda piece: (-piece.size.area, piece.size, piece.sheet, piece.x, piece.y))
        self.pieces = [fresh, *stock[: self._inventory - 1]]
        self.scrap += stock[self._inventory - 1 :]


def fitting_ways(shop: Shop, slot: int) -> list[bool]:
    """Return for each of the four ways whether the current order can be cut so from the piece in a slot."""
    straight, turned = (shop.fits(slot, Way(turned, False)) for turned in (False, True))
    return [turned if way.turned else straight for way in WAYS]
