"""The inventory: what storage and lateness come to under rules that order up to a level."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from maze_devkit.inventory import DAYS, DEMAND, MOST, Inventory


def played(level):
    """Return the mean return and share of late orders of 20 episodes in which units are ordered up to a level."""
    returns, late = [], []
    for seed in range(20):
        env, over, total = Inventory(), False, 0.0
        seen, _ = env.reset(seed=seed)
        while not over:
            wanted = np.clip(level - 20 * seen.sum(), 0, MOST)
            seen, reward, over, _, _ = env.step(np.array([2 * wanted / MOST - 1], np.float32))
            total += reward
        returns.append(total)
        late.append(env.events.take(DAYS)[1]["late_orders"])
    return np.mean(returns), np.mean(late)


def test_the_best_return_is_late_and_orders_in_time_cost_storage():
    found = {level: played(level) for level in (8, 18, 24)}
    assert found[8][0] > found[18][0] > found[24][0] > 0
    assert found[8][1] > 0.7
    assert found[18][1] == pytest.approx(0.1, abs=0.03)
    assert found[24][1] < 0.02
    assert found[8][0] <= DAYS * DEMAND * 1.05  # no order earns more than its margin


def test_it_is_an_environment():
    check_env(Inventory(), skip_render_check=True)
