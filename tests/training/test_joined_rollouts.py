"""Steps that several workers took, as one process would have taken them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from maze_devkit.envs import CountingEnv, SeededWalk
from maze_local.joined_rollouts import joined
from maze_onpolicy.collect.assignment import GivenActions
from maze_onpolicy.collect.rollout_sink import RolloutSink

from maze_core.base.seeding import EpisodeSeeds, Purpose
from maze_core.collect.stepper import Stepper
from maze_core.envs.serial import SerialVectorEnv
from maze_core.envs.spaces import allocate, space_specs

STEPS = 9


def recorded(make, actions, first, stop):
    """Return the rollout of environments `first` to `stop - 1`."""
    env = SerialVectorEnv(lambda index: make(), stop - first, first)
    given = {key: leaf[:, first:stop] for key, leaf in actions.items()}
    sink = RolloutSink(env, {key: leaf.copy() for key, leaf in given.items()}, complete=True)
    stepper = Stepper(env, EpisodeSeeds(1, Purpose.TRAIN_EPISODES))
    stepper.reset(sink.current)
    stepper.continue_from(sink.carry())
    stepper.step(GivenActions(given), sink, STEPS)
    sink.rollout.carry = list(env.episode_memory)
    return sink.rollout


@pytest.mark.parametrize("make", [SeededWalk, lambda: CountingEnv(3, 0, truncate=True), lambda: CountingEnv(99, 0)])
@pytest.mark.parametrize("edges", [(0, 5), (0, 2, 5), (0, 1, 2, 5)])
def test_joined_steps_are_those_of_one_process(make, edges):
    """Also where environments of several workers end at the same steps, or none does."""
    space = make().action_space
    actions = {"action": np.stack([[space.sample() for _ in range(5)] for _ in range(STEPS)])}
    whole = joined([recorded(make, actions, *pair) for pair in pairwise(edges)])
    env = SerialVectorEnv(lambda index: make(), 5)
    out = allocate(space_specs(env.observation_space, "observation"), (5,))
    env.reset(EpisodeSeeds(1, Purpose.TRAIN_EPISODES), out)
    count = 0
    for t, (taken, result, following) in enumerate(whole.steps()):
        np.testing.assert_array_equal(taken["action"], actions["action"][t])
        expected = env.step(taken, out)
        for name in ("reward", "terminated", "truncated", "valid", "final_indices"):
            np.testing.assert_array_equal(getattr(result, name), getattr(expected, name))
        assert result.episodes == expected.episodes
        assert (result.final_obs is None) == (expected.final_obs is None)
        for key, leaf in out.items():
            np.testing.assert_array_equal(following[key], leaf)
            if expected.final_obs is not None:
                np.testing.assert_array_equal(result.final_obs[key], expected.final_obs[key])
        count += 1
    assert count == STEPS
    assert len(whole.carry) == 5
