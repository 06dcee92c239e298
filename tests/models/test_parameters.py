"""Parameters as arrays and back."""

import numpy as np
import pytest
import torch
from maze_onpolicy.collect.parameter_arrays import load_arrays, state_arrays
from torch import nn


def module(width=3):
    return nn.Sequential(nn.Linear(2, width), nn.BatchNorm1d(width))


def test_parameters_and_buffers_are_copied():
    first, second = module(), module()
    first(torch.randn(5, 2))  # moves the buffers, one of which is a single integer
    arrays = {name: array.copy() for name, array in state_arrays(first).items()}
    for array in arrays.values():
        array.flags.writeable = False
    load_arrays(second, arrays)
    for name, tensor in second.state_dict().items():
        assert torch.equal(tensor, first.state_dict()[name])
    arrays["0.weight"].flags.writeable = True
    arrays["0.weight"] += 1
    assert torch.equal(second[0].weight, first[0].weight)


def test_names_are_those_of_the_state_dict():
    shared = module()
    both = nn.ModuleList([shared, nn.Sequential(shared, nn.Linear(2, 3, bias=False))])
    both.register_buffer("scale", torch.ones(2, dtype=torch.float64))
    both.register_buffer("passing", torch.ones(2), persistent=False)
    both.register_buffer("none", None)
    arrays, state = state_arrays(both), both.state_dict()
    assert list(arrays) == list(state)
    assert all(np.shares_memory(arrays[name], state[name].numpy()) for name in state)


def test_another_module_is_refused():
    with pytest.raises(ValueError, match=r"0\.bias"):
        load_arrays(nn.Sequential(nn.Linear(2, 3, bias=False)), state_arrays(nn.Sequential(nn.Linear(2, 3))))
    with pytest.raises(ValueError, match=r"differ in 0\.bias, 0\.weight"):
        load_arrays(module(3), state_arrays(module(1)))
