"""Numbers of the info that algorithms learn from: the same however environments are stepped, and missed at once."""

import functools

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from maze_foreign_envs.native import NativeVectorEnv

from maze_core.base.errors import RunError
from maze_core.base.seeding import EpisodeSeeds, Purpose
from maze_core.envs.serial import SerialVectorEnv
from maze_core.envs.spaces import allocate, space_specs
from tests.process_envs import process_envs

SEEDS = EpisodeSeeds(2, Purpose.TRAIN_EPISODES)


class Priced(gymnasium.Env):
    """Episodes of 2 or 3 steps; step t of environment i costs i + t / 10."""

    observation_space = spaces.Box(0, 9, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, number):
        self.number, self.told = number, lambda cost: {"cost": cost}

    def reset(self, *, seed=None, options=None):
        self.step_number = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.step_number += 1
        over = self.step_number == 2 + self.number % 2
        info = self.told(self.number + self.step_number / 10)
        return np.full(1, self.step_number, np.float32), 1.0, over, False, info


class Maker:
    """Builds environments whose costs are read."""

    info_columns = ("cost",)

    def __init__(self, told=None):
        self.told = told

    def __call__(self, index):
        env = Priced(index)
        env.told = self.told or env.told
        return env


def native(mode):
    return NativeVectorEnv(
        SyncVectorEnv([functools.partial(Priced, i) for i in range(3)], autoreset_mode=mode), ("cost",)
    )


def costs(env, steps=12):
    """Of each environment: the costs of its valid steps, and the sums of its episodes."""
    out = allocate(space_specs(env.observation_space, "observation"), (3,))
    env.reset(SEEDS, out)
    paid, sums = [[], [], []], [[], [], []]
    for _ in range(steps):
        result = env.step({"action": np.zeros(3, np.int64)}, out)
        assert result.info["cost"].dtype == np.float32
        for i in np.flatnonzero(result.valid):
            paid[i].append(round(float(result.info["cost"][i]), 5))
        for episode in result.episodes:
            sums[episode.env_index].append(round(episode.metrics["cost_return_mean"], 5))
    env.close()
    return paid, sums


def test_each_way_to_step_reads_the_same_numbers():
    paid, sums = costs(SerialVectorEnv(Maker(), 3))
    assert paid[1][:4] == [1.1, 1.2, 1.3, 1.1]
    assert [each[0] for each in sums] == [0.3, 3.6, 4.3]
    assert costs(process_envs(Maker(), 3, 2)) == (paid, sums)
    for mode in AutoresetMode:
        found, totals = costs(native(mode), 8)
        for i in range(3):
            assert found[i] == paid[i][: len(found[i])], mode
            assert totals[i] == sums[i][: len(totals[i])], mode
            assert totals[i], mode


def test_a_replayed_episode_has_its_whole_sum():
    env, out = SerialVectorEnv(Maker(), 3), np.zeros((3, 1), np.float32)
    actions = {"action": np.zeros(3, np.int64)}
    env.reset(SEEDS, {"observation": out})
    for _ in range(4):
        env.step(actions, {"observation": out})
    again = SerialVectorEnv(Maker(), 3)
    again.restore(SEEDS, env.state(), {"observation": out})
    for each in (env, again):
        each.step(actions, {"observation": out})
    ended = [each.step(actions, {"observation": out}).episodes for each in (env, again)]
    assert [episode.metrics for episode in ended[0]] == [episode.metrics for episode in ended[1]]
    assert round(ended[1][1].metrics["cost_return_mean"], 5) == 3.6


@pytest.mark.parametrize(
    ("told", "problem"),
    [
        (lambda cost: {"price": cost}, r"an info without 'cost', which the algorithm learns from: it has price"),
        (lambda cost: {"cost": float("nan")}, "whose 'cost' is not a finite number: nan"),
        (lambda cost: {"cost": "much"}, "whose 'cost' is not a finite number: 'much'"),
        (lambda cost: {"cost": -1e39}, r"whose 'cost' is not a finite number: -1e\+39"),
    ],
)
def test_what_is_missing_or_no_number_ends_the_first_step(told, problem):
    env, out = SerialVectorEnv(Maker(told), 2), {"observation": np.zeros((2, 1), np.float32)}
    env.reset(SEEDS, out)
    with pytest.raises(RunError, match=rf"^environment 0 \(episode 0, step 1\) returned .*{problem}"):
        env.step({"action": np.zeros(2, np.int64)}, out)
