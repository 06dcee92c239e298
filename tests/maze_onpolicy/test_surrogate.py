"""The clipped surrogate against values written by hand."""

import numpy as np
import pytest
import torch
from maze_onpolicy.learn.surrogate import clipped_surrogate, row_divergence

RATIOS = [0.5, 0.9, 1.0, 1.1, 1.5]


@pytest.mark.parametrize("clip_range", [0.1, 0.2, 10.0])
def test_clipped_surrogate(clip_range):
    expected = []
    cases = [(ratio, advantage) for ratio in RATIOS for advantage in (-2.0, 0.0, 3.0)]
    for ratio, advantage in cases:
        clipped = min(max(ratio, 1 - clip_range), 1 + clip_range)
        expected.append(-min(ratio * advantage, clipped * advantage))
    ratio, advantage = torch.tensor(cases).T
    assert clipped_surrogate(ratio, advantage, clip_range).tolist() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("ratio", "advantage", "gradient"),
    [(1.0, 2.0, -2.0), (1.5, 2.0, 0.0), (0.5, 2.0, -2.0), (1.5, -2.0, 2.0), (0.5, -2.0, 0.0)],
)
def test_the_gradient_is_cut_only_where_the_ratio_has_moved_too_far_the_good_way(ratio, advantage, gradient):
    leaf = torch.tensor([ratio], requires_grad=True)
    clipped_surrogate(leaf, torch.tensor([advantage]), 0.2).backward()
    assert leaf.grad.item() == pytest.approx(gradient)


def test_the_divergence_of_rows():
    log_ratio = torch.tensor([0.0, 0.5, -0.5])
    expected = [np.exp(x) - 1 - x for x in (0.0, 0.5, -0.5)]
    assert row_divergence(log_ratio).tolist() == pytest.approx(expected, abs=1e-7)
    # Over many samples of the old policy it is the divergence.
    rng = np.random.default_rng(0)
    p, q = np.array([0.2, 0.5, 0.3]), np.array([0.3, 0.3, 0.4])
    actions = rng.choice(3, 200_000, p=p)
    estimate = row_divergence(torch.from_numpy(np.log(q / p)[actions])).mean().item()
    assert estimate == pytest.approx(np.sum(p * np.log(p / q)), rel=0.02)
