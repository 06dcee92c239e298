"""The stock: what is kept, what is scrap, and that nothing is lost or cut twice."""

import numpy as np
import pytest
from maze_cutting_2d.config import CuttingConfig
from maze_cutting_2d.episode import Episode
from maze_cutting_2d.geometry import WAYS, Size, Way
from maze_cutting_2d.shop import Shop, fitting_ways

UPRIGHT, TURNED = Way(False, False), Way(True, False)


def shop(orders, sheet=(10, 6), catalogue=((4, 3), (2, 2)), inventory=50):
    return Shop(Size(*sheet), [Size(*each) for each in catalogue], [Size(*each) for each in orders], inventory)


def sizes(pieces):
    return [tuple(piece.size) for piece in pieces]


def test_a_fresh_sheet_is_always_in_slot_0_and_counts_when_it_is_cut():
    it = shop([(4, 3)] * 3)
    assert it.serve(0, UPRIGHT)
    assert (it.sheets, sizes(it.pieces)) == (1, [(10, 6), (6, 6), (4, 3)])
    assert not it.serve(2, UPRIGHT)
    assert sizes(it.pieces) == [(10, 6), (6, 6)]
    assert it.serve(0, Way(False, True))
    assert (it.sheets, it.done) == (2, True)
    assert sizes(it.pieces) == [(10, 6), (6, 6), (10, 3), (6, 3)]


def test_what_holds_no_size_of_the_catalogue_is_scrap():
    it = shop([(9, 6)], catalogue=((9, 6), (2, 2)))
    it.serve(0, UPRIGHT)
    assert (sizes(it.pieces), sizes(it.scrap)) == ([(10, 6)], [(1, 6)])


def test_a_size_that_fits_only_turned_is_no_scrap():
    it = shop([(7, 6)], catalogue=((7, 6), (6, 3)))
    it.serve(0, UPRIGHT)
    assert sizes(it.pieces) == [(10, 6), (3, 6)]


def test_a_full_stock_loses_its_smallest_piece():
    it = shop([(4, 3)] * 2, inventory=2)
    it.serve(0, UPRIGHT)
    assert (sizes(it.pieces), sizes(it.scrap)) == ([(10, 6), (6, 6)], [(4, 3)])


def test_an_impossible_choice_turns_the_order_or_takes_a_fresh_sheet():
    it = shop([(4, 3), (6, 10), (2, 6)])
    it.serve(0, UPRIGHT)
    assert sizes(it.pieces) == [(10, 6), (6, 6), (4, 3)]
    assert it.possible(2, UPRIGHT) == (0, TURNED)
    assert it.possible(1, TURNED) == (0, TURNED)
    assert it.possible(49, UPRIGHT) == (0, TURNED)
    assert not any(fitting_ways(it, 1))
    assert fitting_ways(it, 0) == [False, False, True, True]
    it.serve(0, TURNED)
    assert it.possible(1, UPRIGHT) == (1, UPRIGHT)
    assert it.possible(2, TURNED) == (0, TURNED)
    it = shop([(10, 3), (3, 4)])
    it.serve(0, UPRIGHT)
    assert sizes(it.pieces) == [(10, 6), (10, 3)]
    assert it.possible(1, Way(False, True)) == (1, Way(True, True))


def test_no_order_after_the_last():
    it = shop([(2, 2)])
    it.serve(0, UPRIGHT)
    assert it.orders == ()
    with pytest.raises(IndexError):
        it.serve(0, UPRIGHT)


@pytest.mark.parametrize("instances", ["static", "random"])
@pytest.mark.parametrize("inventory", [3, 50])
def test_over_whole_episodes_every_square_of_every_sheet_is_somewhere_once(instances, inventory):
    config = CuttingConfig(name="cutting_2d", instances=instances, inventory=inventory, orders=40)
    rng = np.random.default_rng(4)
    it = Episode(config, rng).shop
    wanted = list(it.orders)
    while not it.done:
        choices = [(slot, way) for slot in range(len(it.pieces)) for way in WAYS if it.fits(slot, way)]
        it.serve(*choices[rng.integers(len(choices))])
    painted = np.zeros((it.sheets, *config.sheet), int)
    for piece in [*it.sold, *it.pieces[1:], *it.scrap]:
        width, height = piece.size
        painted[piece.sheet, piece.x : piece.x + width, piece.y : piece.y + height] += 1
    assert (painted == 1).all()
    assert [max(p.size, p.size.turned) for p in it.sold] == [max(size, size.turned) for size in wanted]
    assert it.sheets >= it.least_sheets
    assert len(it.pieces) <= inventory
