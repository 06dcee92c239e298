"""Environments with goals: their rewards for other goals, and one clear line where there are none."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from maze_offpolicy.replay.goals import GoalRewards

from maze_core.base.errors import ConfigError, RunError
from tests.goals import BitFlips, Reach

WHERE = "algorithm.her_goals"


class Counted(BitFlips):
    calls = 0

    def compute_reward(self, achieved_goal, desired_goal, info):
        self.calls += 1
        return super().compute_reward(achieved_goal, desired_goal, info)


def test_rewards_of_many_goals_take_one_call_where_the_environment_can():
    env = Counted(4)
    rewards = GoalRewards(env, WHERE)
    env.calls = 0
    achieved = np.array([[0, 0, 1, 1], [1, 0, 1, 0], [1, 1, 1, 1]], np.int8)
    desired = np.array([[0, 0, 1, 1], [1, 0, 1, 1], [1, 1, 1, 1]], np.int8)
    values = rewards(achieved, desired)
    assert (values.tolist(), values.dtype, env.calls) == ([0, -1, 0], np.float32, 1)
    flags = np.array([True, False, False])
    assert rewards.terminated(achieved, desired, flags) is flags  # there is no compute_terminated


def test_rewards_of_an_environment_that_computes_one_at_a_time():
    rewards = GoalRewards(Reach(), WHERE)
    achieved = np.array([[0, 0], [0.5, 0.5], [0.1, 0]], np.float32)
    assert rewards(achieved, np.zeros((3, 2), np.float32)).tolist() == [0, -1, 0]
    assert rewards.terminated(achieved, achieved, np.ones(3, bool)).tolist() == [False] * 3
    assert rewards(achieved[:1], achieved[:1]).tolist() == [0]


class Typed(Reach):
    def compute_reward(self, achieved_goal, desired_goal, info):
        assert achieved_goal.dtype == desired_goal.dtype == np.float64
        return super().compute_reward(achieved_goal, desired_goal, info)


def test_the_environment_sees_goals_in_its_own_type():
    goals = np.zeros((2, 2), np.float32)
    assert GoalRewards(Typed(), WHERE)(goals, goals).tolist() == [0, 0]


class Doubled(gymnasium.RewardWrapper):
    def reward(self, reward):
        return 2 * reward


class DoubledBoth(Doubled):
    def compute_reward(self, achieved_goal, desired_goal, info):
        return 2 * self.env.unwrapped.compute_reward(achieved_goal, desired_goal, info)


def test_a_wrapper_may_define_the_rewards():
    goals = np.array([[0, 0], [0.9, 0.9]], np.float32)
    assert GoalRewards(DoubledBoth(Reach()), WHERE)(goals, goals[::-1]).tolist() == [-2, -2]


class Nested(Reach):
    def __init__(self):
        super().__init__()
        goal = spaces.Dict({"place": spaces.Box(-1, 1, (2,))})
        plain = self.observation_space["observation"]
        self.observation_space = spaces.Dict({"observation": plain, "achieved_goal": goal, "desired_goal": goal})


class Unequal(Reach):
    def __init__(self):
        super().__init__()
        goals = {"achieved_goal": spaces.Box(-1, 1, (2,)), "desired_goal": spaces.Box(-1, 1, (3,))}
        self.observation_space = spaces.Dict({**self.observation_space.spaces, **goals})


class Plain(gymnasium.ObservationWrapper):
    def __init__(self, env):
        super().__init__(env)
        self.observation_space = env.observation_space["observation"]

    def observation(self, observation):
        return observation["observation"]


class Centimetres(gymnasium.ObservationWrapper):
    def __init__(self, env):
        super().__init__(env)
        far = spaces.Box(-100, 100, (2,), np.float64)
        self.observation_space = spaces.Dict(dict.fromkeys(env.observation_space.spaces, far))

    def observation(self, observation):
        return {key: 100 * leaf for key, leaf in observation.items()}


class Informed(Reach):
    def compute_reward(self, achieved_goal, desired_goal, info):
        return -info["cost"]

    def step(self, action):
        self._place = self._place.copy()
        return self.observe(), -1.0, False, False, {"cost": 1.0}


class Mute(Reach):
    compute_reward = None

    def step(self, action):
        return self.observe(), -1.0, False, False, {}


REFUSED = {
    "no Dict": (lambda: gymnasium.make("CartPole-v1"), "needs Dict observations .* but the observations are Box"),
    "no goals left": (lambda: Plain(Reach()), "needs Dict observations"),
    "nested goals": (Nested, "'achieved_goal' is a Dict"),
    "goals of two shapes": (Unequal, r"'achieved_goal' is Box\(.*\), but 'desired_goal' is Box"),
    "no compute_reward": (Mute, "compute_reward.*, which Mute has not"),
    "rewards that a wrapper changes": (lambda: Doubled(Reach()), "had the reward -2, but compute_reward returns -1"),
    "goals that a wrapper changes": (lambda: Centimetres(Reach()), "a wrapper changes the goals .* of Reach expects"),
    "rewards that depend on more": (Informed, "with an empty info and for many with a list of them: KeyError: 'cost'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_environment_without_goals_is_one_clear_line(name):
    make, words = REFUSED[name]
    with pytest.raises(ConfigError, match=words) as caught:
        GoalRewards(make(), WHERE)
    assert WHERE in str(caught.value)
    assert "Set it to 0" in str(caught.value)


class Late(Reach):
    failure = None

    def compute_reward(self, achieved_goal, desired_goal, info):
        if self.failure == "raise":
            raise ZeroDivisionError("far away")
        return np.nan if self.failure == "nan" else super().compute_reward(achieved_goal, desired_goal, info)


@pytest.mark.parametrize(
    ("failure", "words"), [("raise", "failed: ZeroDivisionError: far away"), ("nan", "not finite")]
)
def test_a_failure_later_is_one_clear_line(failure, words):
    env = Late()
    rewards, goals = GoalRewards(env, WHERE), np.zeros((2, 2), np.float32)
    env.failure = failure
    with pytest.raises(RunError, match=words):
        rewards(goals, goals)


class ForBatches(Reach):
    """A reward that takes many goals only."""

    def step(self, action):
        observation, _, *rest = self._stepped(action)
        return observation, float(self.compute_reward(self._place[None], self._goal[None], [{}])[0]), *rest

    def _stepped(self, action):
        self._place = np.clip(self._place + 0.2 * action, -1, 1)
        self._steps += 1
        return self.observe(), 0.0, False, self._steps >= self._length, {}

    def compute_reward(self, achieved_goal, desired_goal, info):
        if achieved_goal.ndim != 2:
            raise IndexError("a batch is needed")
        return -np.linalg.norm(achieved_goal - desired_goal, axis=1)


def test_a_reward_for_batches_only():
    goals = np.random.default_rng(0).uniform(-1, 1, (3, 2))
    assert np.allclose(
        GoalRewards(ForBatches(), WHERE)(goals, goals[::-1]), -np.linalg.norm(goals - goals[::-1], axis=1)
    )
