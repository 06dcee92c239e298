"""Discounts between turns, by hand: 1 within a decision, gamma after it, in advantages, V-trace and replay."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_impala.config import IMPALAConfig
from maze_impala.trajectories import trajectories
from maze_offpolicy.replay.buffer import ReplayBuffer
from maze_onpolicy.data.discounts import rollout_discounts
from maze_onpolicy.data.vtrace import vtrace
from maze_onpolicy.learn.advantages import advantage_rows

from maze_core.data.rollout import Rollout, Trajectory
from maze_core.envs.actors import ActorId

GAMMA = 0.5
ELAPSED = np.array([1, 0, 1, 0, 1], np.float32)
"""Two decisions of two turns, and the observation after them."""
REWARDS = np.array([0, 1, 0, 2], np.float32)
VALUES = np.array([10, 20, 30, 40, 100], np.float32)


class Reader:
    """A policy whose critic reads the value off the observation."""

    def value(self, obs):
        return obs["value"]


def rollout(*, terminated=False, truncated=False, elapsed=ELAPSED):
    """The four steps, three times side by side; the end is a termination, a cut in a decision, or neither."""
    flags = {name: np.zeros((4, 3), bool) for name in ("terminated", "truncated")}
    flags["terminated"][3], flags["truncated"][3] = terminated, truncated
    obs = {"value": np.repeat(VALUES[:, None], 3, 1)}
    final = {"value": np.full(3, 60, np.float32)}
    if elapsed is not None:
        obs["turn/elapsed"], final["turn/elapsed"] = np.repeat(elapsed[:, None], 3, 1), np.zeros(3, np.float32)
    cut = [(3, np.arange(3), final)] if truncated else []
    actions = {"action": np.zeros((4, 3), np.int64)}
    return Rollout(
        obs, actions, np.repeat(REWARDS[:, None], 3, 1), **flags, valid=np.ones((4, 3), bool), truncations=cut
    )


# Targets by hand, from the last row back; the advantage is the target minus the value.
# Terminated: 2; 0 + 2; 1 + 0.5 * 2; 0 + 2. Cut within a decision, final value 60: 2 + 60; 62; 1 + 31; 32.
# Going on to the next decision, whose value is 100: 2 + 0.5 * 100; 52; 1 + 26; 27.
CASES = [
    ({"terminated": True}, [2, 2, 2, 2]),
    ({"truncated": True}, [32, 32, 62, 62]),
    ({}, [27, 27, 52, 52]),
]


@pytest.mark.parametrize(("ends", "targets"), CASES)
def test_advantages_of_two_decisions_by_hand(ends, targets):
    rows, _ = advantage_rows(Reader(), rollout(**ends), GAMMA, 1.0, torch.device("cpu"))
    found = rows.extra["target"].reshape(4, 3)
    np.testing.assert_allclose(found, np.repeat(np.array(targets, np.float32)[:, None], 3, 1))
    np.testing.assert_allclose(rows.extra["advantage"].reshape(4, 3)[:, 1], np.array(targets) - VALUES[:4])


def test_one_step_advantages_by_hand():
    rows, _ = advantage_rows(Reader(), rollout(terminated=True), GAMMA, 0.0, torch.device("cpu"))
    # 0 + 20 - 10; 1 + 0.5 * 30 - 20; 0 + 40 - 30; 2 - 40
    np.testing.assert_allclose(rows.extra["advantage"].reshape(4, 3)[:, 0], [10, -4, 10, -38])


@pytest.mark.parametrize(("ends", "targets"), CASES)
def test_vtrace_of_the_acting_policy_has_the_same_targets(ends, targets):
    config = IMPALAConfig(name="impala", gamma=GAMMA, actors_batch_size=3, envs_per_actor=3, n_rollout_steps=4)
    part = rollout(**ends)
    part.extra["log_prob"] = np.zeros((4, 3), np.float32)
    batch = trajectories(part, config, Reader(), torch.device("cpu"))
    data = {name: leaf.numpy().reshape(4, 3) for name, leaf in batch.extra.items()}
    values = np.repeat(VALUES[:, None], 3, 1)
    following = np.where(data["continues"] > 0, values[1:], data["bootstrap"])
    following[-1] = data["bootstrap"][-1]
    found = vtrace(np.zeros((4, 3)), data["reward"], values[:4], following, data["discount"], data["continues"])
    np.testing.assert_allclose(found.targets[:, 2], targets)


def test_rows_that_do_not_say_what_elapsed_are_discounted_as_ever():
    plain, said = rollout(elapsed=None, terminated=True), rollout(elapsed=np.ones(5, np.float32), terminated=True)
    expected = np.where(plain.terminated, 0.0, 0.99).astype(np.float32)
    for each in (plain, said):
        found = rollout_discounts(each, 0.99)
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("ends", "last"), [({"terminated": True}, 0.0), ({"truncated": True}, 0.5)])
@pytest.mark.parametrize("n_step", [1, 2, 3, 9])
def test_replay_sums_rewards_over_turns(n_step, ends, last):
    turn = spaces.Dict({"actor": ActorId({"a": "a"}), "elapsed": spaces.Box(0, np.inf, (), np.float32)})
    space = spaces.Dict({"turn": turn, "number": spaces.Discrete(5)})
    buffer = ReplayBuffer(space, spaces.Discrete(2), 20)
    obs = {"turn/actor": np.zeros(5, np.int64), "turn/elapsed": ELAPSED, "number": np.arange(5)}
    flags = {"terminated": False, "truncated": False, **ends}
    actions = {"action": np.zeros(4, np.int64)}
    buffer.add_episode(Trajectory(obs, actions, REWARDS, flags["terminated"], flags["truncated"], 3.0, None))
    batch = buffer.sample(np.random.default_rng(0), 64, GAMMA, n_step=n_step)
    factor = [1.0, GAMMA, 1.0, last]
    for row, number in enumerate(batch.obs["number"].tolist()):
        ahead = range(number, min(number + n_step, 4))
        reward = sum(float(np.prod(factor[number:t])) * float(REWARDS[t]) for t in ahead)
        assert float(batch.extra["reward"][row]) == reward
        assert float(batch.extra["discount"][row]) == float(np.prod(factor[number : ahead[-1] + 1]))
        assert int(batch.next_obs["number"][row]) == ahead[-1] + 1
    assert set(batch.obs["number"].tolist()) == {0, 1, 2, 3}
