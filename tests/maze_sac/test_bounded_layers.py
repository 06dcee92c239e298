"""The layers of FlashSAC against loops over single numbers, and their norms after steps of an optimizer."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from maze_sac.bounded_layers import BoundedTrunk, UnitBatchNorm, joint_norm, rms_normalized, unit_norm


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def test_weights_of_each_output_have_norm_one():
    weight = numbers(2, 3, 4)
    found = unit_norm(torch.tensor(weight), 1)
    for k in range(2):
        for output in range(4):
            norm = sum(weight[k, i, output] ** 2 for i in range(3)) ** 0.5
            np.testing.assert_allclose(found[k, :, output], weight[k, :, output] / norm)
    assert torch.isfinite(unit_norm(torch.zeros(1, 2, 2), 1)).all()


def test_scales_and_shifts_share_a_norm():
    scale, shift = numbers(2, 1, 5), numbers(2, 1, 5, seed=1)
    ours, theirs = joint_norm(torch.tensor(scale), torch.tensor(shift))
    for k in range(2):
        size = (sum(x**2 for x in (*scale[k, 0], *shift[k, 0])) / 5) ** 0.5
        np.testing.assert_allclose(ours[k, 0], scale[k, 0] / size)
        np.testing.assert_allclose(theirs[k, 0], shift[k, 0] / size)


def test_root_mean_square_normalisation_by_hand():
    values, scale = numbers(3, 4), numbers(4, seed=1)
    found = rms_normalized(torch.tensor(values), torch.tensor(scale))
    for row in range(3):
        size = (sum(x**2 for x in values[row]) / 4 + 1e-6) ** 0.5
        np.testing.assert_allclose(found[row], values[row] / size * scale)


def normed(values, scale, shift, mean=None, variance=None):
    """Batch normalisation of [B, F], feature by feature."""
    result = np.empty_like(values)
    for f in range(values.shape[1]):
        column = values[:, f]
        m = column.mean() if mean is None else mean[f]
        v = ((column - m) ** 2).mean() if variance is None else variance[f]
        result[:, f] = (column - m) / (v + 1e-5) ** 0.5 * scale[f] + shift[f]
    return result


@pytest.fixture
def trunk():
    """Two networks of one block, with parameters moved from their start, but within their norms."""
    torch.manual_seed(0)
    trunk = BoundedTrunk(2, 3, 4, 1).double()
    with torch.no_grad():
        for parameter in trunk.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    trunk.bound()
    return trunk


@pytest.mark.parametrize("batch", [True, False])
def test_the_trunk_is_that_of_the_paper(trunk, batch):
    with torch.no_grad():
        for norm in trunk.norms:
            norm.mean += 0.1
            norm.variance *= 1.5
    running = [(norm.mean.numpy().copy(), norm.variance.numpy().copy()) for norm in trunk.norms]
    values = numbers(2, 6, 3)
    found = trunk(torch.tensor(values), batch=batch, observe=False)
    for k in range(2):
        parts = []
        for norm, (mean, variance) in zip(trunk.norms, running, strict=True):
            known = (None, None) if batch else (mean[k, 0], variance[k, 0])
            parts.append((norm.scale[k, 0].detach().numpy(), norm.shift[k, 0].detach().numpy(), *known))
        first, wide, narrow = (layer.weight[k].detach().numpy() for layer in trunk.layers)
        hidden = normed(values[k], *parts[0]) @ first
        inside = np.maximum(normed(hidden @ wide, *parts[1]), 0)
        hidden = hidden + np.maximum(normed(inside @ narrow, *parts[2]), 0)
        scale = trunk.last.scale[k, 0].detach().numpy()
        expected = hidden / ((hidden**2).mean(-1, keepdims=True) + 1e-6) ** 0.5 * scale
        np.testing.assert_allclose(found[k].detach(), expected, rtol=1e-6, atol=1e-9)
    for norm, (mean, variance) in zip(trunk.norms, running, strict=True):
        np.testing.assert_array_equal(norm.mean, mean)
        np.testing.assert_array_equal(norm.variance, variance)


def test_frozen_layers_pass_gradients_and_get_none(trunk):
    values = torch.tensor(numbers(2, 6, 3), requires_grad=True)
    trunk(values, batch=False, frozen=True).sum().backward()
    assert values.grad is not None
    assert values.grad.abs().sum() > 0
    assert all(parameter.grad is None for parameter in trunk.parameters())


def test_running_statistics_take_in_a_hundredth_of_a_batch():
    norm, values = UnitBatchNorm(1, 3).double(), numbers(1, 8, 3)
    norm(torch.tensor(values), batch=True)
    np.testing.assert_allclose(norm.mean[0, 0], 0.01 * values[0].mean(0))
    np.testing.assert_allclose(norm.variance[0, 0], 0.99 + 0.01 * values[0].var(0), rtol=1e-6)
