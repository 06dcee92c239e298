"""The scale of rewards against loops over single numbers."""

from __future__ import annotations

import numpy as np
import pytest
from maze_sac.flash_sac import normal_entropy
from maze_sac.reward_scale import RewardScale, reward_scale
from torch.distributions import Normal

from maze_core.envs.vector import StepResult


def step(rewards, ended=(), valid=None):
    """The result of a step, in which the episodes of some rows end."""
    rewards, flags = np.array(rewards, np.float32), np.zeros(len(rewards), bool)
    valid = ~flags if valid is None else np.array(valid)
    return StepResult(rewards, flags, flags, valid, np.array(ended, np.int64), has_filler=not valid.all())


def test_the_scale_by_hand():
    assert reward_scale(4.0, 3.0, 5.0) == pytest.approx(0.5)
    assert reward_scale(4.0, 40.0, 5.0) == pytest.approx(1 / 8)
    assert np.isfinite(reward_scale(0.0, 0.0, 5.0))


def test_statistics_are_those_of_all_discounted_sums():
    """Sums begin anew behind each end, and filler rows are not counted."""
    steps = [
        step([1, -2, 5]),
        step([2, 3, 100], valid=[True, True, False]),
        step([4, 1, -1], ended=[0, 2]),
        step([1, 1, 1]),
    ]
    scale, every, sums = RewardScale(3, lambda: 0.9, 5.0), [], [0.0, 0.0, 0.0]
    assert scale.factor == 1.0
    for each in steps:
        scale.seen(each)
        for row in range(3):
            if each.valid[row]:
                sums[row] = 0.9 * sums[row] + float(each.reward[row])
                every.append(sums[row])
            if row in each.final_indices:
                sums[row] = 0.0
    expected = 1 / max((np.var(every) + 1e-8) ** 0.5, max(map(abs, every)) / 5)
    assert scale.factor == pytest.approx(expected)
    other = RewardScale(3, lambda: 0.9, 5.0)
    other.load_state(scale.state())
    for each in (scale, other):
        each.seen(step([7, 8, 9]))
    assert other.factor == scale.factor


def test_the_entropy_aimed_at_is_that_of_a_normal():
    assert normal_entropy(0.15, 3) == pytest.approx(3 * Normal(0.0, 0.15).entropy().item(), rel=1e-6)
