"""Episodes within many steps, beside a count step by step."""

import numpy as np
import pytest
from maze_foreign_envs.counting import counted


def one_by_one(rewards, ended, valid, totals, lengths):
    totals, lengths, number, found = totals.copy(), lengths.copy(), np.zeros(len(totals), int), []
    for t, row in enumerate(rewards):
        totals += row
        lengths += valid[t]
        for i in np.flatnonzero(ended[t]):
            found.append((t, i, number[i], totals[i], lengths[i]))
            totals[i], lengths[i], number[i] = 0, 0, number[i] + 1
    return found, totals, lengths


@pytest.mark.parametrize(
    ("steps", "rows", "share"), [(1, 1, 0.5), (1, 7, 1.0), (40, 6, 0.2), (9, 4, 1.0), (30, 5, 0.0)]
)
def test_episodes_are_those_of_single_steps(steps, rows, share):
    rng = np.random.default_rng(steps)
    ended, rewards = rng.random((steps, rows)) < share, rng.normal(size=(steps, rows)).astype(np.float32)
    valid = (rng.random((steps, rows)) < 0.9) | ended
    rewards = np.where(valid, rewards, np.float32(0))
    totals, lengths = rng.normal(size=rows), rng.integers(0, 9, rows)
    expected, open_totals, open_lengths = one_by_one(rewards, ended, valid, totals, lengths)
    found = counted(rewards, ended, valid, totals, lengths)
    assert list(zip(found.step, found.row, found.number, found.length, strict=True)) == [
        (t, i, k, length) for t, i, k, _, length in expected
    ]
    np.testing.assert_allclose(found.total, [total for *_, total, _ in expected], rtol=1e-12)
    np.testing.assert_allclose(found.open_total, open_totals, rtol=1e-12, atol=1e-12)
    assert np.array_equal(found.open_length, open_lengths)


def test_a_huge_reward_leaves_the_returns_of_other_episodes_alone():
    rewards = np.array([[1e30], [1.0], [2.0]])
    found = counted(rewards, np.array([[True], [False], [True]]), rewards > 0, np.zeros(1), np.zeros(1, int))
    assert found.total.tolist() == [1e30, 3.0]
