"""Compiled updates of the offline algorithms are those of the code."""

import pytest
import torch
from gymnasium import spaces
from maze_devkit.envs import SpacesEnv

from tests.interpreted import interpreted as interpreted
from tests.recorded import BOX, OBSERVATION


@pytest.mark.parametrize(("algorithm", "space"), [("iql", spaces.Discrete(3)), ("cql", BOX), ("td3_bc", BOX)])
def test_a_run_is_that_of_the_code(interpreted, offline, record, algorithm, space, capfd):
    folder = record(OBSERVATION, space)
    plain, ours = (
        offline(algorithm, lambda: SpacesEnv(OBSERVATION, space), folder, {"compile": setting})
        for setting in ("off", "on")
    )
    for context in (plain, ours):
        context.train()
    assert capfd.readouterr().err.count("are compiled from step") == len(ours.run.repeated._recorded) > 0
    assert not ours.run.repeated.given_up
    for mine, theirs in zip(ours.policy.parameters(), plain.policy.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-4)
