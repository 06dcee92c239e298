"""Reward scaling: statistics of discounted returns, whole or in parts, across episode ends and waiting rows."""

import numpy as np
import pytest
from gymnasium import spaces
from maze_devkit.envs import SeededWalk, SpacesEnv
from maze_onpolicy.data.reward_scale import RewardScale

from maze_core.base.errors import ConfigError
from maze_core.data.rollout import Rollout
from tests.agents import MixedSource

OVERRIDES = {"evaluation.n_episodes": 0}


def rollout_of(rewards, over=None, valid=None, truncated=None):
    steps, columns = rewards.shape
    nothing = np.zeros((steps, columns), dtype=bool)
    return Rollout(
        obs={"obs": np.zeros((steps + 1, columns, 1), np.float32)},
        actions={},
        rewards=rewards.astype(np.float32).copy(),
        terminated=nothing if over is None else over,
        truncated=nothing if truncated is None else truncated,
        valid=~nothing if valid is None else valid,
    )


def returns_by_hand(rewards, over, valid, gamma):
    """The discounted sum of each episode so far, row by row."""
    found = []
    for column in range(rewards.shape[1]):
        running, discount = 0.0, 0.0
        for t in range(len(rewards)):
            if not valid[t, column]:
                continue
            running = running * discount + rewards[t, column]
            found.append(running)
            discount = 0.0 if over[t, column] else gamma
    return np.array(found)


@pytest.mark.parametrize("parts", [1, 2, 5, 40])
def test_rewards_are_divided_by_the_deviation_of_returns(parts):
    random = np.random.default_rng(parts)
    rewards = random.normal(3.0, 20.0, (40, 6)).astype(np.float32)
    over, valid = random.random((40, 6)) < 0.1, random.random((40, 6)) < 0.8
    truncated = over & (random.random((40, 6)) < 0.5)
    scale = RewardScale(0.9)
    for rows in np.split(np.arange(40), parts):
        last = rollout_of(rewards[rows], over[rows] & ~truncated[rows], valid[rows], truncated[rows])
        scale(last)
    expected = returns_by_hand(rewards, over, valid, 0.9).std()
    np.testing.assert_allclose(last.rewards, (rewards[rows] / expected).clip(-10, 10), rtol=1e-5)


def test_groups_of_agents_have_scales_of_their_own():
    random = np.random.default_rng(0)
    rewards = random.normal(0.0, 1.0, (50, 4)) * np.array([1.0, 1000.0, 1.0, 1000.0])
    rollout = rollout_of(rewards)
    rollout.extra["group"] = np.tile(np.array([0, 3, 0, 3]), (50, 1))
    RewardScale(0.9)(rollout)
    for columns in ([0, 2], [1, 3]):
        alone = rollout_of(rewards[:, columns])
        RewardScale(0.9)(alone)
        np.testing.assert_array_equal(rollout.rewards[:, columns], alone.rewards)


def test_the_returns_of_each_source_go_on_where_they_ended():
    """Two actors whose rollouts arrive in turn, beside one rollout of all their columns."""
    rewards = np.random.default_rng(1).normal(0.0, 5.0, (6, 4))
    together, apart = RewardScale(0.9), RewardScale(0.9)
    for rows in (slice(0, 3), slice(3, 6)):
        together(rollout_of(rewards[rows]))
        for source, columns in enumerate(([0, 1], [2, 3])):
            apart(rollout_of(rewards[rows][:, columns]), source)
    (one,), (other,) = together.state()["spreads"].values(), apart.state()["spreads"].values()
    assert one == pytest.approx(other)
    new = RewardScale(0.9)
    new.load_state(apart.state(), episodes=False)
    assert new.state() == {"spreads": apart.state()["spreads"], "returns": {}}


def test_equal_rewards_and_no_rows_leave_rewards_alone():
    scale = RewardScale(0.0)
    for value in (0.0, 2.0):
        rollout = rollout_of(np.full((4, 2), value))
        scale(rollout := rollout_of(np.full((4, 2), value), valid=np.zeros((4, 2), bool)))
        assert (rollout.rewards == value).all()
    scale(rollout := rollout_of(np.full((4, 2), 2.0)))
    assert (rollout.rewards == 2.0).all()


def test_huge_rewards_are_clipped_and_stay_finite():
    rollout = rollout_of(np.array([[0.0, 1e30], [-1e30, 0.0]] + [[0.0, 0.0]] * 998))
    RewardScale(0.99)(rollout)
    assert np.isfinite(rollout.rewards).all()
    assert rollout.rewards.max() <= 10
    assert rollout.rewards.min() >= -10


class ScaledWalk(SeededWalk):
    """The walk with rewards a thousand times as large."""

    def step(self, action):
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, 1000.0 * reward, terminated, truncated, info


@pytest.mark.parametrize("algorithm", ["ppo", "appo"])
def test_scores_are_unscaled_and_the_scale_of_rewards_does_not_matter(quick, algorithm):
    weights, scores = [], []
    for env in (SeededWalk, ScaledWalk):
        run = quick(env, algorithm, {"algorithm.normalize_rewards": True})
        run.train()
        weights.append(run.run.policy.state_dict())
        scores.append(run.evaluate(2)["eval/return_mean"])
    for name, leaf in weights[0].items():
        np.testing.assert_allclose(leaf.numpy(), weights[1][name].numpy(), rtol=1e-3, atol=1e-4, err_msg=name)
    assert scores[1] == pytest.approx(1000 * scores[0], rel=1e-4)


@pytest.mark.parametrize("algorithm", ["ppo", "impala"])
def test_a_resumed_run_has_the_same_scale(quick, whole_state, assert_same, algorithm):
    more = {"algorithm.normalize_rewards": True, "algorithm.n_epochs": 4}
    whole = quick(SeededWalk, algorithm, more)
    whole.train()
    half = quick(SeededWalk, algorithm, more | {"algorithm.n_epochs": 2})
    half.train()
    half.close()
    resumed = quick(SeededWalk, algorithm, more, run_dir=None)
    resumed.resume(half.run_dir)
    assert_same(whole_state(half.run_dir), whole_state(whole.run_dir))


def test_agents_have_scaled_rewards(quick):
    run = quick(MixedSource, "ppo", {"algorithm.normalize_rewards": True})
    run.train()
    assert run.run.epoch == 2


def test_rewards_are_clipped_or_scaled_but_not_both(quick):
    with pytest.raises(ConfigError, match=r"normalize_rewards and reward_clipping=abs_one both"):
        quick(SeededWalk, "impala", {"algorithm.normalize_rewards": True, "algorithm.reward_clipping": "abs_one"})


def test_dict_observations(quick):
    space = spaces.Dict({"a": spaces.Box(-1, 1, (2,)), "b": spaces.Discrete(3)})
    run = quick(lambda: SpacesEnv(space, spaces.Discrete(2)), "a2c", {"algorithm.normalize_rewards": True})
    run.train()
    assert run.run.epoch == 2
