"""The objectives on numbers small enough to work out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from maze_offline.losses import advantage_weights, expectile_loss, log_integral, squared_errors, value_weight


def test_errors_above_the_value_count_more():
    """0.7 * 4 and 0.3 * 1 and 0: their mean."""
    assert expectile_loss(torch.tensor([2.0, -1.0, 0.0]), 0.7).item() == pytest.approx((2.8 + 0.3) / 3)


@pytest.mark.parametrize("expectile", [0.5, 0.7, 0.9])
def test_the_least_loss_is_at_the_expectile(expectile):
    """Of the values 0, 1 and 10: where the weighted distances to both sides are equal."""
    values = np.array([0.0, 1.0, 10.0])
    candidates = np.linspace(0, 10, 100_001)
    upper = expectile * np.clip(values - candidates[:, None], 0, None).sum(1)
    lower = (1 - expectile) * np.clip(candidates[:, None] - values, 0, None).sum(1)
    wanted = candidates[np.abs(upper - lower).argmin()]
    state = torch.tensor(5.0, dtype=torch.float64, requires_grad=True)
    for _ in range(2000):
        (gradient,) = torch.autograd.grad(expectile_loss(torch.from_numpy(values) - state, expectile), state)
        state.data -= 0.5 * gradient
    assert state.item() == pytest.approx(wanted, abs=1e-3)


def test_advantages_weigh_by_their_exponential_up_to_a_limit():
    weights = advantage_weights(torch.tensor([0.0, 0.5, -1.0, 2.0, 1e6]), 3.0, 100.0)
    expected = [1.0, math.exp(1.5), math.exp(-3.0), 100.0, 100.0]
    assert weights.tolist() == pytest.approx(expected)
    assert advantage_weights(torch.tensor([5.0, -5.0]), 0.0, 100.0).tolist() == [1.0, 1.0]


def test_values_weigh_alpha_over_their_mean_size():
    """(1 + 3 + 8) / 3 is 4, and the weight has no gradient."""
    values = torch.tensor([1.0, -3.0, 8.0], requires_grad=True)
    weight = value_weight(values, 2.5)
    assert weight.item() == pytest.approx(0.625)
    assert not weight.requires_grad
    assert math.isfinite(value_weight(torch.zeros(3), 2.5).item())


def test_errors_are_summed_over_critics():
    values, target = torch.tensor([[1.0, 2.0], [0.0, 0.0]]), torch.tensor([0.0, 4.0])
    assert squared_errors(values, target).item() == pytest.approx((1 + 4) / 2 + (0 + 16) / 2)


def test_the_integral_is_that_over_all_actions_whatever_they_are_sampled_from():
    """Of exp(2 a) over a from -1 to 1: sinh 2. Half of the samples are even, half from the density (1 + a) / 2."""
    rng = np.random.default_rng(0)
    even, slanted = rng.uniform(-1, 1, 200_000), 2 * np.sqrt(rng.random(200_000)) - 1
    for actions, density in ((even, np.full(200_000, 0.5)), (slanted, (1 + slanted) / 2)):
        values, logs = torch.from_numpy(2 * actions).unsqueeze(-1), torch.from_numpy(np.log(density)).unsqueeze(-1)
        assert log_integral(values, logs).item() == pytest.approx(math.log(math.sinh(2)), abs=0.01)
    by_hand = log_integral(torch.tensor([[[1.0], [3.0]], [[0.0], [0.0]]]), torch.tensor([[0.5], [-0.5]]))
    wanted = [math.log((math.exp(0.5) + math.exp(3.5)) / 2), math.log((math.exp(-0.5) + math.exp(0.5)) / 2)]
    assert by_hand.flatten().tolist() == pytest.approx(wanted)
