"""Numbers that differ only by rounding count as equal, wherever something is divided by a spread."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from maze_offline.iql import _reward_scale
from maze_onpolicy.data.returns import explained_variance
from maze_onpolicy.data.reward_scale import RewardScale
from maze_onpolicy.data.rounding import nearly_equal
from maze_onpolicy.learn.advantages import normalized

from maze_core.base.errors import ConfigError
from maze_core.data.rollout import Rollout

SIZES = [1, 2, 7, 64, 100, 1001]
VALUES = [0.1, -7.7, 123.456, 1e8, -1e8, 3e-7, 1e18, 0.0]


def rounded(value: float, size: int, ulps: int = 1) -> np.ndarray:
    """Numbers that should be equal, some of them a few units in the last place apart."""
    random = np.random.default_rng(size)
    numbers = np.full(size, value, np.float32)
    return (
        numbers if not value else numbers + np.spacing(numbers) * random.integers(0, ulps + 1, size).astype(np.float32)
    )


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("size", SIZES)
def test_advantages_that_are_equal_but_for_rounding_become_zero(value, size):
    rows, group = torch.arange(2 * size) % 2 == 0, torch.arange(2 * size) % 2
    for numbers in (np.full(size, value, np.float32), rounded(value, size), rounded(value, size, 3)):
        advantage = torch.from_numpy(numbers)
        assert normalized(advantage).tolist() == [0.0] * size
        # Beside filler rows, and beside the advantages of another network.
        both = torch.stack([advantage, torch.linspace(-9e9, 9e9, size)], 1).reshape(-1)
        assert normalized(both, counts=rows).tolist() == [0.0] * 2 * size
        assert normalized(both, group)[rows].tolist() == [0.0] * size


@pytest.mark.parametrize("scale", [1e-5, 1.0, 1e5, 1e15])
@pytest.mark.parametrize("middle", [0.0, 1.0, -100.0, 1e4])
def test_advantages_that_differ_are_normalised_whatever_their_size(scale, middle):
    numbers = (np.random.default_rng(0).normal(middle, 1, 500) * scale).astype(np.float32)
    exact = numbers.astype(np.float64)
    found = normalized(torch.from_numpy(numbers))
    np.testing.assert_allclose(found, (exact - exact.mean()) / exact.std(), atol=2e-3 if middle == 1e4 else 1e-4)


def test_groups_and_rows_that_do_not_count_are_as_if_they_were_alone():
    random = np.random.default_rng(1)
    advantage = torch.from_numpy(random.normal(3, 5, 60).astype(np.float32))
    group = torch.from_numpy(random.integers(0, 5, 60))
    group[group == 3] = 4  # a network without rows
    counts = torch.from_numpy(random.random(60) < 0.7)
    counts &= group != 1  # and one whose rows do not count
    advantage = torch.where(counts, advantage * 1000.0**group, torch.full_like(advantage, torch.nan))
    found = normalized(advantage, group, counts)
    for number in range(5):
        alone = counts & (group == number)
        torch.testing.assert_close(found[alone], normalized(advantage[alone]), rtol=0, atol=0)
    assert not found[~counts].any()
    assert normalized(advantage[:0]).shape == normalized(advantage[:0], group[:0], counts[:0]).shape == (0,)
    assert not normalized(advantage, group, torch.zeros(60, dtype=torch.bool)).any()


def test_what_is_not_finite_stays_visible():
    assert normalized(torch.tensor([1.0, torch.nan, 2.0])).isnan().any()


@pytest.mark.parametrize("value", [0.0, 1e-5, 2.0])
def test_returns_that_are_equal_but_for_rounding_do_not_scale_rewards(value):
    rewards = rounded(value, 80, 2).reshape(40, 2)
    flags = np.zeros((40, 2), bool)
    rollout = Rollout({}, {}, rewards.copy(), ~flags, flags, ~flags)
    RewardScale(0.9)(rollout)
    np.testing.assert_array_equal(rollout.rewards, rewards.clip(-10, 10))


@pytest.mark.parametrize("size", [1e-12, 1e-6, 1.0, 1e12])
def test_rewards_of_any_size_are_scaled_alike(size):
    rewards = np.random.default_rng(2).normal(1, 1, (200, 3)).astype(np.float32)
    flags = np.zeros((200, 3), bool)
    found = []
    for factor in (1.0, size):
        rollout = Rollout({}, {}, rewards * np.float32(factor), flags, flags, ~flags)
        RewardScale(0.9)(rollout)
        found.append(rollout.rewards)
    np.testing.assert_allclose(*found, rtol=1e-4)


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("size", SIZES)
def test_nothing_is_explained_of_equal_targets(value, size):
    predictions = np.random.default_rng(0).normal(size=size).astype(np.float32)
    assert np.isnan(explained_variance(predictions, rounded(value, size)))


def test_recorded_returns_that_are_equal_have_no_range():
    for returns in (np.full(9, 3.0), rounded(200.0, 50).astype(np.float64), np.array([7.0])):
        with pytest.raises(ConfigError, match="equal returns"):
            _reward_scale(returns)
    assert _reward_scale(np.array([1.0, 1.001])) == pytest.approx(1e6, rel=1e-6)


def test_numbers_arrays_and_tensors():
    assert nearly_equal(0.0, 0.0)
    assert nearly_equal(1e8, 1e8 + 50)
    assert not nearly_equal(1e8, 1e8 + 150)
    assert not nearly_equal(-1e-30, 1e-30)
    assert nearly_equal(np.array([1.0, 1.0]), np.array([1.0, 2.0])).tolist() == [True, False]
    assert nearly_equal(torch.tensor(-5.0), torch.tensor(-5.0)).item()
