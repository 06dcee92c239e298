"""Losses and targets against loops over single numbers, written from the papers."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from maze_dqn.losses import cross_entropy, entropy, huber, project
from maze_dqn.returns import Expected, Probabilities, Quantiles
from maze_onpolicy.data.returns import generalized_advantages


def test_the_huber_loss_is_a_parabola_with_tangents():
    for kappa in (0.5, 1.0, 2.0):
        error = torch.linspace(-4, 4, 81, requires_grad=True)
        loss = huber(error, kappa)
        (slope,) = torch.autograd.grad(loss.sum(), error)
        # Its slope is the error, cut off at kappa; and it is 0 at 0.
        np.testing.assert_allclose(slope, error.detach().numpy().clip(-kappa, kappa), atol=1e-6)
        assert abs(loss[40].item()) < 1e-9
    torch.testing.assert_close(huber(error), torch.nn.functional.smooth_l1_loss(error, error * 0, reduction="none"))


def projected(probabilities, support, reward, discount):
    """Algorithm 1 of the paper, number by number."""
    low, high, count = support[0], support[-1], len(support)
    step = (high - low) / (count - 1)
    result = [0.0] * count
    for j in range(count):
        value = min(max(reward + discount * support[j], low), high)
        b = (value - low) / step
        lower, upper = math.floor(b), math.ceil(b)
        if lower == upper:
            result[lower] += probabilities[j]
        else:
            result[lower] += probabilities[j] * (upper - b)
            result[upper] += probabilities[j] * (b - lower)
    return result


def test_the_projection_of_c51_by_hand():
    rng = np.random.default_rng(1)
    support = np.linspace(-2, 3, 11)  # steps of 0.5: some values fall on the support exactly
    probabilities = rng.dirichlet(np.ones(11), size=40)
    rewards = np.concatenate([rng.choice([-9, -1, 0, 0.5, 1, 9], 20), rng.normal(size=20)])
    discounts = np.concatenate([rng.choice([0, 0.5, 1], 20), rng.uniform(0, 1, 20)])
    arrays = (torch.tensor(each) for each in (probabilities, support, rewards, discounts))
    found = project(*arrays)
    expected = [projected(p, support, r, d) for p, r, d in zip(probabilities, rewards, discounts, strict=True)]
    np.testing.assert_allclose(found, expected, atol=1e-9)
    np.testing.assert_allclose(found.sum(-1), 1)
    # Away from the ends the mean is kept.
    inside = (rewards + discounts * -2 >= -2) & (rewards + discounts * 3 <= 3)
    mean = rewards + discounts * (probabilities @ support)
    assert inside.sum() > 10
    np.testing.assert_allclose((found @ torch.tensor(support))[inside], mean[inside])


def test_cross_entropy_and_entropy():
    logits, target = torch.randn(6, 5, dtype=torch.float64), torch.rand(6, 5, dtype=torch.float64).softmax(-1)
    target[0] = torch.tensor([0.0, 1, 0, 0, 0])
    gap = cross_entropy(logits, target) - entropy(target)
    np.testing.assert_allclose(
        gap, torch.nn.functional.kl_div(logits.log_softmax(-1), target, reduction="none").sum(-1), atol=1e-9
    )


REWARD, DISCOUNT = torch.tensor([1.0, -2.0]), torch.tensor([0.9, 0.0])


def test_targets_are_rewards_where_the_episode_terminated_and_means_over_members_elsewhere():
    following = torch.tensor([[[4.0], [6.0]], [[100.0], [200.0]]])  # two rows of two members
    torch.testing.assert_close(Expected().target(following, REWARD, DISCOUNT), torch.tensor([[1 + 0.9 * 5], [-2.0]]))
    atoms = torch.randn(2, 2, 4)
    quantiles = Quantiles(4).target(atoms, REWARD, DISCOUNT)
    torch.testing.assert_close(quantiles[0], 1 + 0.9 * (atoms[0, 0] + atoms[0, 1]) / 2)
    torch.testing.assert_close(quantiles[1], torch.full((4,), -2.0))
    parts = Probabilities(21, -10, 10)
    logits = torch.randn(2, 3, 21)
    target = parts.target(logits, REWARD, DISCOUNT)
    mean = logits[0].softmax(-1).mean(0) @ parts.support
    torch.testing.assert_close(target[0] @ parts.support, 1 + 0.9 * mean)
    torch.testing.assert_close(target[1], (parts.support == -2).float(), atol=1e-5, rtol=0)


@pytest.mark.parametrize("returns", [Expected(), Quantiles(5), Probabilities(5, -1, 1)], ids=lambda r: type(r).__name__)
def test_the_error_is_0_at_the_target_and_a_step_reduces_the_loss(returns):
    chosen = torch.randn(4, 3, returns.atoms, requires_grad=True)
    target = torch.randn(4, returns.atoms)
    if isinstance(returns, Probabilities):
        target = target.softmax(-1)
        same = target.log().unsqueeze(1).expand(-1, 3, -1)
    else:
        same = target.unsqueeze(1).expand(-1, 3, -1)
    assert returns.loss(same, target)[1].abs().max() < 1e-6
    loss, error = returns.loss(chosen, target)
    assert (loss.shape, error.shape) == ((4,), (4,))
    assert (error > 0).all()
    (gradient,) = torch.autograd.grad(loss.sum(), chosen)
    better, _ = returns.loss(chosen.detach() - 0.01 * gradient, target)
    assert better.sum() < loss.sum()


def test_lambda_returns_are_those_of_the_paper():
    """PQN's recursion (Gallici et al., eq. 5) over single episodes, beside the advantages plus values that it uses."""
    rng = np.random.default_rng(2)
    steps, gamma, mix = 9, 0.9, 0.65
    rewards, best = rng.normal(size=(steps, 1)), rng.normal(size=(steps + 1, 1))
    terminated = np.zeros((steps, 1), bool)
    terminated[[2, 5]] = True
    discounts, continues = np.where(terminated, 0, gamma), (~terminated).astype(float)
    found = generalized_advantages(rewards, best[:-1], best[1:], discounts, continues, mix) + best[:-1]
    expected, following = np.zeros(steps), None
    for t in reversed(range(steps)):
        if terminated[t]:
            expected[t] = rewards[t, 0]
        elif following is None:
            expected[t] = rewards[t, 0] + gamma * best[t + 1, 0]
        else:
            expected[t] = rewards[t, 0] + gamma * (mix * following + (1 - mix) * best[t + 1, 0])
        following = expected[t]
    np.testing.assert_allclose(found[:, 0], expected)
