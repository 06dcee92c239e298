"""Both members of a pair play the same episode, one step at a time, and only while it lasts."""

import gymnasium
import numpy as np
import pytest
from maze_devkit.envs import CountingEnv, FailingEnv, SeededWalk
from maze_es.lanes import NativeLanes, SingleLanes, make_lanes

from maze_core.config.base import PluginConfig
from maze_core.envs.builder import EnvBuilder
from maze_core.envs.factory_source import FactoryConfig, FactorySource
from maze_core.envs.gymnasium_source import GymnasiumConfig
from maze_core.errors import RunError
from maze_core.plugins.base import Plugin
from maze_core.plugins.discovery import load, overlay
from maze_core.plugins.hookspecs import hookimpl
from maze_core.seeding import EpisodeSeeds, Purpose

NATIVE = GymnasiumConfig(name="gymnasium", id="CartPole-v1", vectorization="native")


def builder(make):
    return EnvBuilder(FactoryConfig(name="factory"), load=overlay({("env", "factory"): FactorySource.of(make)}))


def seeds(first=0, width=3):
    return EpisodeSeeds(5, Purpose.TRAIN_EPISODES, stride=width, first=first)


@pytest.mark.parametrize("kind", ["single", "native"])
def test_pairs_begin_alike_and_differently_from_other_pairs(kind):
    lanes = make_lanes(EnvBuilder(NATIVE.model_copy(update={"vectorization": kind}), load=load), 3)
    assert isinstance(lanes, NativeLanes if kind == "native" else SingleLanes)
    starts = []
    for first in (0, 3, 0):
        lanes.start(seeds(first), 3)
        obs = lanes.obs["observation"]
        np.testing.assert_array_equal(obs[0::2], obs[1::2])
        starts.append(obs[0::2].copy())
        assert len(np.unique(obs[0::2], axis=0)) == 3
        for _ in range(4):
            lanes.step(np.arange(6), {"action": np.array([0, 0, 1, 1, 0, 0])})
            np.testing.assert_array_equal(obs[0::2], obs[1::2])
        lanes.step(np.arange(6), {"action": np.array([0, 1, 0, 1, 0, 1])})
        assert not np.isclose(obs[0::2], obs[1::2]).all(1).any()
    np.testing.assert_array_equal(starts[0], starts[2])
    assert not np.isclose(starts[0], starts[1]).any()
    lanes.close()
    lanes.close()


def test_episodes_equal_those_of_environments_stepped_by_hand():
    lanes = SingleLanes(builder(SeededWalk))
    lanes.start(seeds(0), 1)
    lanes.start(seeds(6), 2)
    envs = [SeededWalk() for _ in range(4)]
    firsts = [env.reset(seed=seeds(6)(i // 2, 0))[0] for i, env in enumerate(envs)]
    np.testing.assert_allclose(lanes.obs["observation"], firsts, rtol=1e-6)
    playing = [0, 1, 2, 3]
    rng = np.random.default_rng(0)
    while playing:
        actions = rng.integers(0, 3, len(playing))
        rewards, ended = lanes.step(np.array(playing), {"action": actions})
        expected = [envs[i].step(a) for i, a in zip(playing, actions, strict=True)]
        np.testing.assert_allclose(rewards, [e[1] for e in expected], rtol=1e-12)
        np.testing.assert_array_equal(ended, [e[2] or e[3] for e in expected])
        np.testing.assert_allclose(lanes.obs["observation"][playing], [e[0] for e in expected], rtol=1e-6)
        playing = [i for i, end in zip(playing, ended, strict=True) if not end]
    lanes.close()


def test_native_episodes_equal_single_ones_from_the_same_start():
    lanes = make_lanes(EnvBuilder(NATIVE, load=load), 3)
    lanes.start(seeds(), 3)
    singles = [gymnasium.make("CartPole-v1") for _ in range(6)]
    for env, start in zip(singles, lanes.obs["observation"], strict=True):
        env.reset(seed=0)
        env.unwrapped.state = start.astype(np.float64)
    playing, rng = list(range(6)), np.random.default_rng(1)
    while playing:
        actions = rng.integers(0, 2, len(playing))
        rewards, ended = lanes.step(np.array(playing), {"action": actions})
        expected = [singles[i].step(a) for i, a in zip(playing, actions, strict=True)]
        np.testing.assert_array_equal(rewards, [e[1] for e in expected])
        np.testing.assert_array_equal(ended, [e[2] or e[3] for e in expected])
        on = ~ended  # what a lane shows whose episode is over is acted on by nobody
        shown = lanes.obs["observation"][playing]
        np.testing.assert_allclose(shown[on], np.array([e[0] for e in expected])[on], atol=1e-4)
        playing = [i for i, end in zip(playing, ended, strict=True) if not end]
    lanes.close()


def test_what_is_over_is_not_stepped():
    steps = []

    class Watched(CountingEnv):
        def step(self, action):
            steps.append(id(self))
            return super().step(action)

    lanes = SingleLanes(builder(Watched))
    lanes.start(seeds(width=2), 2)
    lanes.step(np.arange(4), {"action": np.zeros(4, np.int64)})
    lanes.step(np.array([1, 2]), {"action": np.zeros(2, np.int64)})
    counts = sorted(steps.count(each) for each in set(steps))
    assert counts == [1, 1, 2, 2]
    np.testing.assert_array_equal(lanes.obs["observation"][:, 2], [1, 2, 2, 1])  # a copy of what the env overwrites


def test_lanes_of_a_pair_are_built_alike():
    built = []

    class Indexed(Plugin):
        @hookimpl
        def make_env(self, config, seed, index):
            built.append((seed, index))
            return CountingEnv()

    lanes = SingleLanes(EnvBuilder(PluginConfig(name="indexed"), load=overlay({("env", "indexed"): Indexed})))
    assert len(built) == 2
    for pairs in (2, 3, 1):
        lanes.start(seeds(), pairs)
    assert len(built) == 6  # as many as were needed at once
    assert built[0::2] == built[1::2]
    assert len(set(built)) == 3


@pytest.mark.parametrize(
    ("way", "message"),
    [
        ("raise", r"environment [01] of the population raised ZeroDivisionError: the wheel came off"),
        ("nan_observation", r"environment 0 of the population returned a value of observation 'observation'"),
        ("nan_reward", r"environment 0 of the population returned a reward that is not finite: nan"),
        ("no_reward", r"environment 0 of the population raised ValueError"),
    ],
)
def test_failures_are_named(way, message):
    lanes = SingleLanes(builder(lambda: FailingEnv(way)))
    lanes.start(seeds(width=1), 1)
    actions = {"action": np.ones(2, np.int64)}
    for _ in range(2):
        lanes.step(np.arange(2), actions)
    with pytest.raises(RunError, match=message):
        lanes.step(np.arange(2), actions)
