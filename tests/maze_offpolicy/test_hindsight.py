"""Hindsight: the new goals were reached later in the same episode, and rewards, flags and shares are theirs."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces
from maze_offpolicy.replay.buffer import ReplayBuffer
from maze_offpolicy.replay.hindsight import Futures, Hindsight

from maze_core.base.errors import ConfigError
from maze_core.data.rollout import Trajectory
from maze_core.envs.vector import StepResult

PLACE = spaces.Box(-np.inf, np.inf, (3,), np.float32)
OBSERVATION = spaces.Dict({"observation": PLACE, "achieved_goal": PLACE, "desired_goal": PLACE})
ACTION = spaces.Discrete(3)
OWN = [-1.0, -1.0, -1.0]


class Distances:
    """Rewards that tell which goal was taken: minus the steps from what was achieved to the goal."""

    def __call__(self, achieved, desired):
        return (achieved - desired)[:, 2]

    def terminated(self, achieved, desired, recorded):
        return (achieved == desired).all(-1)


class Envs:
    """Environments whose observations say which they are, the episode and the step; `lengths` of their episodes."""

    def __init__(self, lengths, truncate=True, filler=False):
        self.lengths, self.truncate, self.filler = lengths, truncate, filler
        self.at = [[env, 0, 0] for env in range(len(lengths))]
        self.waits = [False] * len(lengths)
        self.ends = {}
        """Length of the episodes that are over, by environment and number."""

    def obs(self, rows=None):
        rows = np.array(self.at if rows is None else rows, np.float32)
        return {"observation": rows, "achieved_goal": rows.copy(), "desired_goal": np.full_like(rows, -1.0)}

    def feed(self, buffer, steps):
        for _ in range(steps):
            final, over, valid = [], [], []
            for env, length in enumerate(self.lengths):
                valid.append(not self.waits[env])
                over.append(False)
                if self.waits[env]:
                    self.waits[env] = False
                    continue
                self.at[env][2] += 1
                if self.at[env][2] == length + self.at[env][1] % 3:  # episodes of different lengths
                    self.ends[env, self.at[env][1]] = self.at[env][2]
                    final.append(list(self.at[env]))
                    over[env] = True
                    self.at[env][1:] = self.at[env][1] + 1, 0
                    self.waits[env] = self.filler
            over = np.array(over)
            result = StepResult(
                np.full(len(over), 7.0, np.float32),
                over & (not self.truncate),
                over & self.truncate,
                np.array(valid),
                np.flatnonzero(over),
                self.obs(final) if final else None,
                has_filler=not all(valid),
            )
            buffer.step({"action": np.zeros(len(over), np.int64)}, result, self.obs())


def new(capacity=1000, goals=4):
    return ReplayBuffer(OBSERVATION, ACTION, capacity, transforms=[Hindsight(Distances(), goals)])


def sampled(buffer, count=4000, seed=0):
    return buffer.sample(np.random.default_rng(seed), count, 0.9)


def check(batch, ends):
    """Check every row by hand numbers; return the steps between goal and step, by place of the step."""
    drawn = {}
    for before, after, goal, next_goal, reward, discount in zip(
        batch.obs["achieved_goal"].tolist(),
        batch.next_obs["achieved_goal"].tolist(),
        batch.obs["desired_goal"].tolist(),
        batch.next_obs["desired_goal"].tolist(),
        batch.extra["reward"].tolist(),
        batch.extra["discount"].tolist(),
        strict=True,
    ):
        assert after == [before[0], before[1], before[2] + 1]
        assert goal == next_goal
        if goal == OWN:
            assert reward == 7
            continue
        length = ends[int(before[0]), int(before[1])]
        assert goal[:2] == before[:2]
        assert before[2] < goal[2] <= length
        assert reward == after[2] - goal[2]
        assert discount == pytest.approx(0.0 if reward == 0 else 0.9)
        drawn.setdefault(tuple(before), []).append(int(goal[2] - before[2]))
    return drawn


@pytest.mark.parametrize(("filler", "truncate"), [(False, True), (True, False)])
@pytest.mark.parametrize("capacity", [1000, 67])
@pytest.mark.parametrize("lengths", [[5], [1, 4, 7], [30, 2]])
def test_goals_are_those_that_the_same_episode_reached_later(capacity, filler, truncate, lengths):
    envs, buffer = Envs(lengths, truncate, filler), new(capacity)
    buffer.begin(envs.obs())
    for _ in range(40):
        envs.feed(buffer, 3)
        check(sampled(buffer, 50), envs.ends)
    drawn = check(sampled(buffer), envs.ends)
    assert len(drawn) > 10
    for (env, episode, step), steps in drawn.items():
        if len(steps) > 100:  # all that follow are drawn, equally often
            left = int(envs.ends[env, episode] - step)
            counts = np.bincount(steps, minlength=left + 1)[1:]
            assert len(counts) == left
            assert np.abs(counts - len(steps) / left).max() < 6 * len(steps) ** 0.5


def test_four_of_five_samples_have_another_goal():
    envs, buffer = Envs([4]), new()
    buffer.begin(envs.obs())
    envs.feed(buffer, 4)
    own = (sampled(buffer, 10_000).obs["desired_goal"] == -1).all(-1).float().mean()
    assert own.item() == pytest.approx(0.2, abs=0.02)


def test_an_episode_that_is_not_over_keeps_its_goal():
    envs, buffer = Envs([10, 2]), new()
    buffer.begin(envs.obs())
    envs.feed(buffer, 9)
    assert {place[0] for place in check(sampled(buffer), envs.ends)} == {1}
    envs.feed(buffer, 1)
    assert {place[0] for place in check(sampled(buffer), envs.ends)} == {0, 1}


def test_an_episode_longer_than_the_buffer_has_the_goals_of_its_rest():
    envs, buffer = Envs([100]), new(20)
    buffer.begin(envs.obs())
    envs.feed(buffer, 100)
    drawn = check(sampled(buffer), envs.ends)
    assert min(step for _, _, step in drawn) == 82  # the newest 20 rows but the next episode's first, and the last
    envs.feed(buffer, 500)  # several times the ring since the last sample
    check(sampled(buffer), envs.ends)


@pytest.mark.parametrize("sampled_before", [False, True])
def test_the_same_rows_give_the_same_goals_after_they_were_saved(sampled_before):
    envs, buffer = Envs([5, 3, 11]), new(80)
    buffer.begin(envs.obs())
    for _ in range(30):
        envs.feed(buffer, 5)
        if sampled_before:
            sampled(buffer, 3)
    first = buffer.settled - len(buffer) + buffer.open
    again = new(80)
    again.restore(first, buffer.read(first, buffer.settled - first))
    again.begin(envs.obs())
    again.steps = buffer.steps
    for _ in range(3):
        one, other = sampled(buffer), sampled(again)
        assert all(one.obs[key].equal(other.obs[key]) for key in one.obs)
        assert all(one.extra[key].equal(other.extra[key]) for key in one.extra)
        ended = dict(envs.ends)
        before = envs.at, envs.waits
        envs.at = [list(row) for row in envs.at]
        envs.feed(buffer, 7)
        envs.at, envs.waits, envs.ends = before[0], before[1], ended
        envs.feed(again, 7)


@pytest.mark.parametrize("ending", [(True, False), (False, True), (False, False)])
def test_recorded_episodes_have_goals_too(ending):
    buffer, ends = new(), {}
    for number in range(3):
        rows = np.array([[0, number, t] for t in range(6)], np.float32)
        obs = {"observation": rows, "achieved_goal": rows, "desired_goal": np.full_like(rows, -1)}
        actions = {"action": np.zeros(5, np.int64)}
        buffer.add_episode(Trajectory(obs, actions, np.full(5, 7, np.float32), *ending, 0.0))
        ends[0, number] = 5
    assert len(check(sampled(buffer), ends)) == 15


def test_what_goals_need_is_counted_before_it_is_allocated():
    futures = Futures(1000)
    arrays = [value for value in vars(futures).values() if isinstance(value, np.ndarray)]
    assert sum(array.nbytes for array in arrays) == Hindsight(Distances(), 4).nbytes(1000)
    plain = ReplayBuffer(OBSERVATION, ACTION, 1000)
    assert new(1000).nbytes == plain.nbytes + Hindsight(Distances(), 4).nbytes(1000)
    with pytest.raises(ConfigError, match="GB are free"):
        new(10**12)


def test_sums_of_rewards_and_priorities_are_refused():
    with pytest.raises(ValueError, match="the rewards of single steps"):
        new().sample(np.random.default_rng(0), 3, 0.9, n_step=2)
