"""Noise that stays for a random number of steps."""

from __future__ import annotations

import numpy as np
import pytest
from maze_offpolicy import Repeated
from maze_offpolicy.collect.noise_processes import stay_probabilities


def test_the_probability_of_staying_falls_with_the_square_of_its_length():
    weights = [1 / n**2 for n in range(1, 5)]
    np.testing.assert_allclose(stay_probabilities(4), [each / sum(weights) for each in weights])


def test_stays_have_these_lengths_and_values_are_normal():
    noise, rows, steps = Repeated(np.random.default_rng(0), 3), 400, 300
    drawn = np.stack([noise.next(rows, 2) for _ in range(steps)])
    assert drawn.std() == pytest.approx(1, rel=0.03)
    lengths = []
    for row in range(rows):
        changes = np.flatnonzero((np.diff(drawn[:, row], axis=0) != 0).all(-1)) + 1
        lengths += np.diff(changes).tolist()  # the first and the last stay are cut
    shares = np.bincount(lengths, minlength=5)[1:4] / len(lengths)
    np.testing.assert_allclose(shares, stay_probabilities(3), atol=0.01)
    assert max(lengths) == 3
    assert (drawn[:, 0] != drawn[:, 1]).all()


def test_a_restored_state_goes_on_alike():
    one, other = (Repeated(np.random.default_rng(seed), 16) for seed in (0, 1))
    for _ in range(7):
        one.next(5, 3)
    other.load_state(one.state())
    for _ in range(20):
        np.testing.assert_array_equal(one.next(5, 3), other.next(5, 3))
