"""The quantile Huber loss against loops over single numbers, written from the paper."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from maze_offpolicy.learn.quantile_loss import quantile_huber


def pairwise(quantiles, samples, kappa):
    """The loss as the paper writes it, with all pairs of quantiles and samples."""
    count = quantiles.shape[-1]
    fractions = (torch.arange(count, dtype=torch.float64) + 0.5) / count
    errors = samples.unsqueeze(-2) - quantiles.unsqueeze(-1)
    size = errors.abs()
    huber = torch.where(size <= kappa, 0.5 * errors.square(), kappa * (size - 0.5 * kappa))
    weight = (fractions.unsqueeze(-1) - (errors < 0).double()).abs()
    return (weight * huber / kappa).mean(-1).sum(-1)


@pytest.mark.parametrize("kappa", [1.0, 0.3])
def test_the_quantile_huber_loss_by_hand(kappa):
    rng = np.random.default_rng(0)
    quantiles, target = rng.normal(size=(3, 5)), 2 * rng.normal(size=(3, 7))
    expected = []
    for row in range(3):
        total = 0.0
        for i, theta in enumerate(quantiles[row]):
            fraction = (2 * i + 1) / (2 * 5)
            for sample in target[row]:
                u = sample - theta
                size = 0.5 * u * u if abs(u) <= kappa else kappa * (abs(u) - 0.5 * kappa)
                total += abs(fraction - (1 if u < 0 else 0)) * size / kappa / 7
        expected.append(total)
    found = quantile_huber(torch.tensor(quantiles), torch.tensor(target), kappa)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_the_quantile_loss_is_least_at_the_quantiles():
    """Of a uniform distribution; with a small kappa, for which the loss is nearly that of exact quantiles."""
    estimates = torch.zeros(1, 4, requires_grad=True)
    optimizer = torch.optim.Adam([estimates], lr=0.01)
    samples = torch.linspace(0, 1, 200).unsqueeze(0)
    for _ in range(600):
        optimizer.zero_grad()
        quantile_huber(estimates, samples, 0.01).sum().backward()
        optimizer.step()
    np.testing.assert_allclose(estimates.detach()[0], [0.125, 0.375, 0.625, 0.875], atol=0.02)


@pytest.mark.parametrize("kappa", [1.0, 0.3, 0.01, 20.0])
@pytest.mark.parametrize(("shift", "scale"), [(0, 1), (500, 10), (-1e5, 1e3), (0, 1e-3)])
@pytest.mark.parametrize("shapes", [((5,), (7,)), ((2, 8, 25), (8, 46)), ((8, 2, 3), (8, 1, 4)), ((4, 1), (4, 1))])
def test_loss_and_slope_are_those_of_all_pairs(kappa, shift, scale, shapes):
    chance = torch.Generator().manual_seed(1)
    quantiles, samples = (torch.randn(s, generator=chance, dtype=torch.float64) * scale + shift for s in shapes)
    quantiles[..., 0] = samples[..., 0]  # an error of 0
    if quantiles.shape[-1] > 2:
        quantiles[..., 1], quantiles[..., 2] = samples[..., -1] - kappa, samples[..., -1] + kappa
    quantiles.requires_grad_()
    wanted, found = pairwise(quantiles, samples, kappa), quantile_huber(quantiles, samples, kappa)
    torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-9)
    slopes = [torch.autograd.grad(loss.sum(), quantiles)[0] for loss in (found, wanted)]
    torch.testing.assert_close(*slopes, rtol=1e-6, atol=1e-7)
    whole = quantile_huber(quantiles.detach().float(), samples.float(), kappa)
    torch.testing.assert_close(whole, pairwise(quantiles.float(), samples.float(), kappa).float(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_what_is_not_finite_stays_visible(wrong):
    good, bad = torch.zeros(1, 3), torch.tensor([[0.0, wrong, 1.0]])
    assert not quantile_huber(bad, good).isfinite()
    assert not quantile_huber(good, bad).isfinite()
