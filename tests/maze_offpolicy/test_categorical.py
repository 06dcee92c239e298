"""Distributions of returns over atoms, against loops over single numbers written from the papers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from maze_offpolicy import cross_entropy, expectation, least_distribution, projected

LOW, HIGH, COUNT = -2.0, 3.0, 6
ATOMS = np.linspace(LOW, HIGH, COUNT)


def softmax(logits):
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


def by_hand(probabilities, rewards, discounts):
    """Equation 7 of arXiv 1707.06887, with a bracket for each pair of atoms."""
    width = (HIGH - LOW) / (COUNT - 1)
    result = np.zeros((len(rewards), COUNT))
    for row, (reward, discount) in enumerate(zip(rewards, discounts, strict=True)):
        for i, z in enumerate(ATOMS):
            for j, atom in enumerate(ATOMS):
                moved = min(max(reward + discount * atom, LOW), HIGH)
                result[row, i] += min(max(1 - abs(moved - z) / width, 0), 1) * probabilities[row, j]
    return result


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_projection_is_that_of_the_paper(dtype):
    """Also where returns lie on atoms, beyond the bounds, and all on one point."""
    rng = np.random.default_rng(0)
    rewards = np.array([0.0, 1.0, 0.25, -9.0, 9.0, -0.37, 3.0, -2.0])
    discounts = np.array([1.0, 0.0, 0.5, 0.9, 0.9, 0.99, 0.0, 0.0])
    probabilities = rng.dirichlet(np.ones(COUNT), len(rewards))
    atoms = torch.tensor(ATOMS, dtype=dtype)
    returns = torch.tensor(rewards, dtype=dtype)[:, None] + torch.tensor(discounts, dtype=dtype)[:, None] * atoms
    found = projected(torch.tensor(probabilities, dtype=dtype), returns, atoms)
    np.testing.assert_allclose(found, by_hand(probabilities, rewards, discounts), atol=1e-6)
    np.testing.assert_allclose(found.sum(-1), np.ones(len(rewards)), rtol=1e-5)
    for row in (0, 2):  # nothing is cut off
        mean = rewards[row] + discounts[row] * (probabilities[row] @ ATOMS)
        assert float(found[row] @ atoms) == pytest.approx(mean, abs=1e-5)


def test_the_critic_that_expects_least_counts_in_each_row():
    rng = np.random.default_rng(1)
    logits = rng.normal(size=(3, 8, COUNT))
    found = least_distribution(torch.tensor(logits), torch.tensor(ATOMS))
    values = expectation(torch.tensor(logits), torch.tensor(ATOMS))
    chosen = set()
    for row in range(8):
        means = [sum(p * z for p, z in zip(softmax(critic[row]), ATOMS, strict=True)) for critic in logits]
        np.testing.assert_allclose(values[:, row], means)
        chosen.add(int(np.argmin(means)))
        np.testing.assert_allclose(found[row], softmax(logits[np.argmin(means), row]))
    assert len(chosen) > 1


def test_the_cross_entropy_by_hand():
    rng = np.random.default_rng(2)
    logits, target = rng.normal(size=(2, 4, COUNT)), rng.dirichlet(np.ones(COUNT), 4)
    expected = 0.0
    for critic in logits:
        for row in range(4):
            expected -= sum(t * np.log(p) for t, p in zip(target[row], softmax(critic[row]), strict=True)) / 4
    assert float(cross_entropy(torch.tensor(logits), torch.tensor(target))) == pytest.approx(expected)
