"""Directions have no period and are the same everywhere; ranks depend on the order only."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from maze_es.noise import Noise
from maze_es.ranks import centred_ranks


def test_a_direction_is_a_function_of_seed_and_index():
    noise = Noise(7, 100)
    rows = noise.rows([0, 5, 2**40])
    assert rows.dtype == np.float32
    np.testing.assert_array_equal(noise.rows([5])[0], rows[1])  # whatever was drawn before it
    np.testing.assert_array_equal(Noise(7, 100).rows([2**40, 0]), rows[[2, 0]])
    assert not np.array_equal(Noise(8, 100).rows([5])[0], rows[1])
    np.testing.assert_array_equal(Noise(7, 40).rows([5])[0], rows[1, :40])


PROGRAM = """
import sys
from maze_es.noise import Noise
print(Noise(3, 50).rows([int(index) for index in sys.argv[1:]]).tobytes().hex())
"""


def test_processes_draw_the_same_directions():
    whole = Noise(3, 50).rows(range(4))
    indices = [3, 1, 2]
    command = [sys.executable, "-c", PROGRAM, *map(str, indices)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert bytes.fromhex(printed) == whole[indices].tobytes()


def test_directions_are_normal_and_no_two_are_alike():
    rows = Noise(1, 500).rows(range(400)).astype(np.float64)
    assert abs(rows.mean()) < 4 / np.sqrt(rows.size)
    assert abs(rows.var() - 1) < 4 * np.sqrt(2 / rows.size)
    # Independent rows: products of different ones are normal with variance 500; 5.5 standard deviations for 80,000.
    products = np.abs(rows @ rows.T)[~np.eye(400, dtype=bool)]
    assert products.max() < 5.5 * np.sqrt(500)
    assert 0.9 < np.mean(products**2) / 500 < 1.1


def test_no_number_comes_back_at_any_distance():
    """A generator that repeats itself, or rows that are windows of each other, would show as equal numbers."""
    rows = Noise(2, 20_000).rows([0, 1, 2])
    windows = {rows[i, j : j + 4].tobytes() for i in range(3) for j in range(20_000 - 3)}
    assert len(windows) == 3 * (20_000 - 3)


def test_a_weighted_sum_is_the_sum_whatever_the_memory(monkeypatch):
    noise, weights = Noise(4, 30), np.random.default_rng(0).normal(size=25)
    expected = sum(w * noise.rows([i + 3])[0].astype(np.float64) for i, w in enumerate(weights))
    np.testing.assert_allclose(noise.weighted_sum(range(3, 28), weights), expected, rtol=1e-5, atol=1e-5)
    monkeypatch.setattr("maze_es.noise._CHUNK", 90)  # three rows at a time
    np.testing.assert_allclose(noise.weighted_sum(range(3, 28), weights), expected, rtol=1e-5, atol=1e-5)


def test_ranks_of_known_returns():
    ranks = centred_ranks(np.array([[10.0, -3.0], [0.5, 99.0], [7.0, 6.0]]))
    np.testing.assert_allclose(ranks, [[0.3, -0.5], [-0.3, 0.5], [0.1, -0.1]], atol=1e-7)


def test_equal_returns_share_their_ranks():
    np.testing.assert_allclose(centred_ranks(np.array([5.0, 1.0, 5.0, 5.0, 9.0])), [0, -0.5, 0, 0, 0.5], atol=1e-7)
    assert not centred_ranks(np.full((4, 2), 500.0)).any()
    assert not centred_ranks(np.array([3.0])).any()


@given(arrays(np.float64, st.integers(2, 40), elements=st.integers(-50, 50).map(float)))
def test_ranks_are_centred_and_invariant(returns):
    ranks = centred_ranks(returns)
    assert ranks.sum() == pytest.approx(0.0, abs=1e-4)
    assert np.abs(ranks).max() <= 0.5
    np.testing.assert_array_equal(ranks, centred_ranks(np.exp(returns / 10) * 1e6 - 3))
    np.testing.assert_allclose(ranks, -centred_ranks(-returns), atol=1e-7)
    # The definition: how many are worse, and half of those that are equal.
    by_count = [(np.sum(returns < x) + (np.sum(returns == x) - 1) / 2) / (len(returns) - 1) - 0.5 for x in returns]
    np.testing.assert_allclose(ranks, by_count, atol=1e-6)
