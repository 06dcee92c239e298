"""Compiled updates of cloning are those of the code."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_devkit.envs import SpacesEnv

from maze_core.envs.spaces import allocate, space_specs
from tests.interpreted import interpreted as interpreted

SIGHT = spaces.Dict({"here": spaces.Box(-1, 1, (3,)), "near": spaces.Discrete(4)})


@pytest.mark.parametrize(
    ("space", "settings"),
    [
        (spaces.Discrete(3), {"model.normalize_observations": True, "algorithm.max_grad_norm": 0.1}),
        (spaces.Box(-1, 1, (2,)), {"algorithm.entropy_coef": 0.1, "algorithm.lr_schedule": "linear"}),
        (spaces.Dict({"go": spaces.MultiDiscrete([2, 3]), "how": spaces.MultiBinary(2)}), {}),
    ],
)
def test_a_run_is_that_of_the_code(interpreted, bc, record, space, settings, capfd):
    """But for the remainder of each pass, which is taken as usual."""

    def act(obs):
        rng, actions = np.random.default_rng(1), allocate(space_specs(space, "action"), (len(obs["here"]) - 1,))
        for leaf in actions.values():
            leaf[...] = rng.random(leaf.shape) if leaf.dtype.kind == "f" else rng.integers(0, 2, leaf.shape)
        return actions

    folder = record(SIGHT, space, [9, 12, 10], act)
    plain, ours = (
        bc(lambda: SpacesEnv(SIGHT, space), folder, {**settings, "compile": setting}) for setting in ("off", "on")
    )
    for context in (plain, ours):
        context.train()
    assert capfd.readouterr().err.count("are compiled from step") == len(ours.run.repeated._recorded) == 1
    assert not ours.run.repeated.given_up
    for mine, theirs in zip(ours.policy.parameters(), plain.policy.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-4)
