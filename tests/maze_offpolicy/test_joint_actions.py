"""Actions of any space for critics: which choices were taken, and which the masks allow."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_offpolicy.models.joint_actions import JointActions

from maze_core.envs.codecs import ActionCodec

X = spaces.Box(-1, 1, (2,))
ACTION = spaces.Dict(
    {"a": spaces.Discrete(3), "b": spaces.MultiBinary(2), "c": spaces.MultiDiscrete([2, 3]), "d": spaces.Box(-1, 1)}
)
SEEN = spaces.Dict({"x": X, "b_mask": spaces.MultiBinary(2), "c_mask": spaces.Box(0, 1, (5,), np.float32)})


def test_choices_are_counted_over_all_leaves():
    actions = JointActions(SEEN, ACTION)
    taken = {
        "a": torch.tensor([0, 2]),
        "b": torch.tensor([[0, 1], [1, 1]], dtype=torch.int8),
        "c": torch.tensor([[1, 0], [0, 2]]),
        "d": torch.zeros(2, 1),
    }
    # a: 0 to 2, b: 3, 4 and 5, 6, c: 7, 8 and 9 to 11.
    assert actions.indices(taken).tolist() == [[0, 3, 6, 8, 9], [2, 4, 6, 7, 11]]
    values = torch.arange(2 * 2 * 12.0).reshape(2, 2, 12)
    sums = [[sum(float(values[k, b, i]) for i in actions.indices(taken)[b]) for b in range(2)] for k in range(2)]
    assert actions.chosen(values, taken).tolist() == sums


@pytest.mark.parametrize("dtype", [torch.int8, torch.float32])
def test_what_masks_allow(dtype):
    actions = JointActions(SEEN, ACTION)
    for bits in itertools.product([0, 1], repeat=7):
        obs = {"x": torch.zeros(1, 2), "b_mask": torch.tensor([bits[:2]]), "c_mask": torch.tensor([bits[2:]])}
        found = actions.allowed({key: leaf.to(dtype) for key, leaf in obs.items()})
        expected = [1, 1, 1, 1, bits[0], 1, bits[1], *bits[2:]]  # a has no mask, and a bit may always stay 0
        assert found.dtype == torch.bool
        assert found.int().tolist() == [expected]


def test_without_masks_nothing_is_looked_at():
    assert JointActions(X, ACTION).allowed({"observation": torch.zeros(4, 2)}) is None


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.float16, np.float32])
def test_tensors_are_executed_as_environments_execute_them(kind):
    """A discriminator would tell whole numbers, which were recorded, from a policy's fractions."""
    space = spaces.Box(0, 7, (3,), kind)
    asked = np.array([[-1.5, 0.5, 1.5], [2.7, 3.3, 9]], np.float32)
    done = JointActions(spaces.Dict({"x": X}), space).executed({"action": torch.from_numpy(asked)})["action"]
    assert np.array_equal(done.numpy(), ActionCodec(space).executed({"action": asked})["action"])
    assert done.dtype == torch.float32
