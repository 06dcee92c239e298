"""RMSprop against `torch.optim.RMSprop`."""

from __future__ import annotations

import pytest
import torch
from maze_onpolicy.learn.rmsprop import RMSprop

from maze_core.base.errors import CheckpointError
from maze_core.learn.optimizers import Adam
from tests.training.optimizers import groups, parameters, train


@pytest.mark.parametrize("settings", [{}, {"alpha": 0.5, "eps": 0.1}], ids=str)
def test_steps_are_those_of_torch_bit_for_bit(settings):
    ours, theirs = parameters(), parameters()
    train(RMSprop(groups(ours), lr=3e-3, **settings), ours, 20, seed=1, skip=7)
    train(torch.optim.RMSprop(groups(theirs), lr=3e-3, **{"eps": 1e-5, **settings}), theirs, 20, seed=1, skip=7)
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def test_the_state_goes_on_exactly():
    whole, parts = parameters(), parameters()
    optimizer, first = RMSprop(whole, lr=1e-2), RMSprop(parts, lr=1e-2)
    train(first, parts, 5, seed=1)
    second = RMSprop(parts, lr=1.0)
    second.load_state_dict(first.state_dict())
    train(second, parts, 5, seed=2)
    train(optimizer, whole, 5, seed=1)
    train(optimizer, whole, 5, seed=2)
    assert all(torch.equal(a, b) for a, b in zip(whole, parts, strict=True))


def test_the_state_of_another_optimizer_is_refused():
    with pytest.raises(CheckpointError, match="state/0 should be a mapping with 'square_avg'"):
        RMSprop(parameters()).load_state_dict(Adam(parameters()).state_dict())
    with pytest.raises(CheckpointError, match="state/0 should be a mapping with 'step'"):
        Adam(parameters()).load_state_dict(RMSprop(parameters()).state_dict())
