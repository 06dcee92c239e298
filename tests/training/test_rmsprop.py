"""RMSprop against `torch.optim.RMSprop`."""

from __future__ import annotations

import pytest
import torch

from maze_core.training.adam import Adam
from maze_core.training.rmsprop import RMSprop


def _parameters() -> list[torch.nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    return [torch.nn.Parameter(torch.randn(shape, generator=generator)) for shape in ((3, 4), (5,), ())]


def _train(optimizer, parameters, steps: int, seed: int, skip: int | None = None) -> None:
    generator = torch.Generator().manual_seed(seed)
    for step in range(steps):
        for number, parameter in enumerate(parameters):
            gradient = torch.randn(parameter.shape, generator=generator)
            parameter.grad = None if number == 1 and step == skip else gradient
        optimizer.step()


def _groups(parameters):
    return [{"params": parameters[:2], "lr": 1e-2}, {"params": parameters[2:]}]


@pytest.mark.parametrize("settings", [{}, {"alpha": 0.5, "eps": 0.1}], ids=str)
def test_steps_are_those_of_torch_bit_for_bit(settings):
    ours, theirs = _parameters(), _parameters()
    _train(RMSprop(_groups(ours), lr=3e-3, **settings), ours, 20, seed=1, skip=7)
    _train(torch.optim.RMSprop(_groups(theirs), lr=3e-3, **{"eps": 1e-5, **settings}), theirs, 20, seed=1, skip=7)
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def test_the_state_goes_on_exactly():
    whole, parts = _parameters(), _parameters()
    optimizer, first = RMSprop(whole, lr=1e-2), RMSprop(parts, lr=1e-2)
    _train(first, parts, 5, seed=1)
    second = RMSprop(parts, lr=1.0)
    second.load_state_dict(first.state_dict())
    _train(second, parts, 5, seed=2)
    _train(optimizer, whole, 5, seed=1)
    _train(optimizer, whole, 5, seed=2)
    assert all(torch.equal(a, b) for a, b in zip(whole, parts, strict=True))


def test_the_state_of_another_optimizer_is_refused():
    with pytest.raises(ValueError, match="another optimizer: it has step, exp_avg, exp_avg_sq"):
        RMSprop(_parameters()).load_state_dict(Adam(_parameters()).state_dict())
    with pytest.raises(ValueError, match="another optimizer"):
        Adam(_parameters()).load_state_dict(RMSprop(_parameters()).state_dict())
