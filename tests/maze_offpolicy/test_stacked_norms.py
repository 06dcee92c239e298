"""Normalisation and dropout of stacked networks against figures by hand and against torch's own layers."""

from __future__ import annotations

import math

import pytest
import torch
from maze_offpolicy.models import stacked_norms
from maze_offpolicy.models.stacked_norms import EPSILON, StackedBatchRenorm, StackedLayerNorm, dropped
from torch import nn


def spread(module):
    """Other parameters than the first ones."""
    with torch.no_grad():
        module.scale.uniform_(0.5, 2)
        module.shift.uniform_(-1, 1)
    return module


def test_layer_norm_equals_one_for_each_network():
    torch.manual_seed(0)
    module, values = spread(StackedLayerNorm(3, 4)), torch.randn(3, 5, 4)
    for number in range(3):
        own = nn.LayerNorm(4)
        own.weight.data, own.bias.data = module.scale.data[number, 0], module.shift.data[number, 0]
        torch.testing.assert_close(module.forward(values)[number], own(values[number]))


def test_before_it_is_settled_batch_renormalisation_is_batch_normalisation():
    torch.manual_seed(0)
    module = spread(StackedBatchRenorm(2, 4))
    own = [nn.BatchNorm1d(4, eps=EPSILON, momentum=0.01) for _ in range(2)]
    for number, each in enumerate(own):
        each.weight.data, each.bias.data = module.scale.data[number, 0], module.shift.data[number, 0]
    for _ in range(3):
        values = torch.randn(2, 6, 4) * 3 + 1
        torch.testing.assert_close(
            module.forward(values, batch=True), torch.stack([each(v) for each, v in zip(own, values, strict=True)])
        )
    assert module.updates == 3
    for number, each in enumerate(own):
        torch.testing.assert_close(module.mean[number, 0], each.running_mean)
        # Torch's running variance is that of a sample, ours that of the batch.
        torch.testing.assert_close(module.variance[number, 0] - 0.99**3, (each.running_var - 0.99**3) * 5 / 6)


def test_the_correction_by_hand(monkeypatch):
    """Batch 1, 3 (mean 2, variance 1) beside running statistics of mean 1 and variance 4."""
    monkeypatch.setattr(stacked_norms, "EPSILON", 1e-12)
    module = StackedBatchRenorm(1, 1)
    module.mean.fill_(1.0)
    module.variance.fill_(4.0)
    module.updates.fill_(stacked_norms.UNCORRECTED)
    found = module.forward(torch.tensor([[[1.0], [3.0]]]), batch=True)
    # r = 1 / 2, d = (2 - 1) / 2: exactly what the running statistics give, (x - 1) / 2.
    assert found.flatten().tolist() == pytest.approx([0, 1])
    assert module.mean.item() == pytest.approx(0.99 * 1 + 0.01 * 2)
    assert module.variance.item() == pytest.approx(0.99 * 4 + 0.01 * 1)


def test_the_correction_is_limited(monkeypatch):
    monkeypatch.setattr(stacked_norms, "EPSILON", 1e-12)
    module = StackedBatchRenorm(1, 2)
    module.updates.fill_(stacked_norms.UNCORRECTED)
    values = torch.tensor([[[80.0, -0.11], [120.0, 0.09]]])  # means 100, -0.01; deviations 20, 0.1
    found = module.forward(values, batch=True)
    # The first has r = 20 → 3 and d = 100 → 5, the second r = 0.1 → 1/3 and d = -0.01.
    assert found[0, :, 0].tolist() == pytest.approx([-3 + 5, 3 + 5])
    assert found[0, :, 1].tolist() == pytest.approx([-1 / 3 - 0.01, 1 / 3 - 0.01])


def test_corrections_are_constants_for_the_gradient(monkeypatch):
    monkeypatch.setattr(stacked_norms, "EPSILON", 1e-12)
    torch.manual_seed(0)
    values, weights = torch.randn(1, 8, 1), torch.randn(1, 8, 1)
    gradients = []
    for updates in (0, stacked_norms.UNCORRECTED):
        module = StackedBatchRenorm(1, 1)
        module.updates.fill_(updates)
        own = values.clone().requires_grad_()
        (module.forward(own, batch=True) * weights).sum().backward()
        gradients.append(own.grad)
    deviation = values.std(correction=0)
    torch.testing.assert_close(gradients[1], gradients[0] * deviation)  # r = s / 1


@pytest.mark.parametrize("updates", [0, stacked_norms.UNCORRECTED])
def test_gradients_are_those_of_the_formula(updates):
    torch.manual_seed(1)
    module = spread(StackedBatchRenorm(2, 3).double())
    module.mean.uniform_(-1, 1)
    module.variance.uniform_(0.5, 4)
    module.updates.fill_(updates)
    mean, deviation = module.mean.clone(), (module.variance + EPSILON).sqrt()
    values, weights = torch.randn(2, 7, 3).double().requires_grad_(), torch.randn(2, 7, 3).double()
    leaves = [values, module.scale, module.shift]
    found = module.forward(values, batch=True)
    gradients = torch.autograd.grad((found * weights).sum(), leaves)

    m, s = values.mean(1, keepdim=True), (values.var(1, keepdim=True, correction=0) + EPSILON).sqrt()
    r, d = (s / deviation).clamp(1 / 3, 3).detach(), ((m - mean) / deviation).clamp(-5, 5).detach()
    r, d = (r, d) if updates else (torch.ones(()), torch.zeros(()))
    expected = ((values - m) / s * r + d) * module.scale + module.shift
    torch.testing.assert_close(found, expected)
    for own, wanted in zip(gradients, torch.autograd.grad((expected * weights).sum(), leaves), strict=True):
        torch.testing.assert_close(own, wanted)


def test_without_the_batch_the_running_statistics_count_and_stay():
    module = spread(StackedBatchRenorm(2, 3))
    module.mean.fill_(2.0)
    module.variance.fill_(9.0)
    values = torch.randn(2, 5, 3)
    before = {name: buffer.clone() for name, buffer in module.named_buffers()}
    found = module.forward(values, batch=False)
    expected = (values - 2) / math.sqrt(9 + EPSILON) * module.scale + module.shift
    torch.testing.assert_close(found, expected)
    assert all(buffer.equal(before[name]) for name, buffer in module.named_buffers())


@pytest.mark.parametrize("kind", [StackedLayerNorm, StackedBatchRenorm])
def test_frozen_parameters_get_no_gradient_but_the_values_do(kind):
    module, values = kind(2, 3), torch.randn(2, 5, 3, requires_grad=True)
    options = {} if kind is StackedLayerNorm else {"batch": False}
    (module.forward(values, frozen=True, **options) * torch.randn(2, 5, 3)).sum().backward()
    assert values.grad.abs().sum() > 0
    assert all(parameter.grad is None for parameter in module.parameters())


def test_dropout_drops_its_share_and_keeps_the_mean():
    values = torch.full((2, 100, 500), 3.0)
    found = dropped(values, 0.25, torch.Generator().manual_seed(0))
    assert set(found.unique().tolist()) == {0.0, 4.0}
    assert (found == 0).float().mean().item() == pytest.approx(0.25, abs=0.01)
    assert not found[0].equal(found[1])
    again = dropped(values, 0.25, torch.Generator().manual_seed(0))
    assert again.equal(found)
