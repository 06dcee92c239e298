"""Cuts conserve the area, never overlap, and go straight through the piece."""

import numpy as np
import pytest
from maze_cutting_2d.geometry import WAYS, Piece, Size, Way, cut


def cells(piece):
    """The unit squares of a piece."""
    x, y = np.meshgrid(np.arange(piece.size.width) + piece.x, np.arange(piece.size.height) + piece.y)
    return set(zip(x.ravel().tolist(), y.ravel().tolist(), strict=True))


CASES = [
    (Size(width, height), Size(*order), way)
    for width, height in [(5, 4), (4, 4), (3, 7)]
    for order in [(1, 1), (2, 3), (4, 4), (3, 3), (4, 3)]
    for way in WAYS
    if Size(width, height).holds(Size(*order).turned if way.turned else Size(*order))
]


@pytest.mark.parametrize(("size", "order", "way"), CASES)
def test_a_cut_divides_the_piece(size, order, way):
    """The unit squares are an independent account of area and overlap."""
    piece = Piece(3, 2, 5, size)
    result = cut(piece, order, way)
    parts = [result.order, *result.remainders]
    squares = [cells(part) for part in parts]
    assert set.union(*squares) == cells(piece)
    assert sum(map(len, squares)) == size.area
    assert all(part.sheet == 3 for part in parts)
    assert result.order.size == (order.turned if way.turned else order)


@pytest.mark.parametrize(("size", "order", "way"), CASES)
def test_the_first_cut_goes_straight_through(size, order, way):
    """All other parts lie within one strip of the order's height (or width), the first remainder beside it."""
    result = cut(Piece(0, 0, 0, size), order, way)
    placed = result.order.size
    right, above = size.width - placed.width, size.height - placed.height
    expected = {
        True: [Size(size.width, above), Size(right, placed.height)],
        False: [Size(right, size.height), Size(placed.width, above)],
    }[way.across]
    assert [each.size for each in result.remainders] == [each for each in expected if each.area]


def test_an_order_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="an order of 3 by 5 does not fit a piece of 5 by 4"):
        cut(Piece(0, 0, 0, Size(5, 4)), Size(5, 3), Way(True, False))
