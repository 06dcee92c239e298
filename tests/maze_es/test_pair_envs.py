"""Both members of a pair play the same episode, one step at a time, and only while it lasts."""

import gymnasium
import numpy as np
import pytest
from maze_devkit.envs import CountingEnv, FailingEnv, SeededWalk
from maze_es.pair_envs import NativePairEnvs, SinglePairEnvs, pair_envs

from maze_core.base.errors import RunError
from maze_core.base.seeding import EpisodeSeeds, Purpose
from maze_core.envs.builder import EnvBuilder
from maze_core.envs.sources.factory import FactoryConfig, FactorySource
from maze_core.envs.sources.gymnasium import GymnasiumConfig
from maze_core.envs.spaces import allocate, space_specs
from maze_core.plugins.base import Plugin
from maze_core.plugins.config.base import PluginConfig
from maze_core.plugins.hookspecs import hookimpl

NATIVE = GymnasiumConfig(name="gymnasium", id="CartPole-v1", vectorization="native")


def builder(make):
    return EnvBuilder(FactoryConfig().bound_to(FactorySource.of(make)))


def seeds(first=0, width=3):
    return EpisodeSeeds(5, Purpose.TRAIN_EPISODES, stride=width, first=first)


def begun(envs, pairs, episode_seeds):
    """Begin an episode in so many pairs; their observations, in arrays that steps write to."""
    obs = allocate(space_specs(envs.observation_space, "observation"), (envs.num_envs,))
    envs.pairs = pairs
    envs.reset(episode_seeds, obs)
    return obs


def acted(envs, rows, actions):
    """Actions of all rows, those of `rows` as given."""
    full = np.zeros(envs.num_envs, np.int64)
    full[rows] = actions
    return {"action": full}


@pytest.mark.parametrize("kind", ["single", "native"])
def test_pairs_begin_alike_and_differently_from_other_pairs(kind):
    envs = pair_envs(EnvBuilder(NATIVE.model_copy(update={"vectorization": kind})), 3, 0)
    assert isinstance(envs, NativePairEnvs if kind == "native" else SinglePairEnvs)
    starts = []
    for first in (0, 3, 0):
        out = begun(envs, 3, seeds(first))
        obs = out["observation"]
        np.testing.assert_array_equal(obs[0::2], obs[1::2])
        starts.append(obs[0::2].copy())
        assert len(np.unique(obs[0::2], axis=0)) == 3
        for _ in range(4):
            envs.step({"action": np.array([0, 0, 1, 1, 0, 0])}, out)
            np.testing.assert_array_equal(obs[0::2], obs[1::2])
        envs.step({"action": np.array([0, 1, 0, 1, 0, 1])}, out)
        assert not np.isclose(obs[0::2], obs[1::2]).all(1).any()
    np.testing.assert_array_equal(starts[0], starts[2])
    assert not np.isclose(starts[0], starts[1]).any()
    envs.close()
    envs.close()


def test_episodes_equal_those_of_environments_stepped_by_hand():
    envs = SinglePairEnvs(builder(SeededWalk), 3)
    begun(envs, 1, seeds(0))
    out = begun(envs, 2, seeds(6))
    by_hand = [SeededWalk() for _ in range(4)]
    firsts = [env.reset(seed=seeds(6)(i // 2, 0))[0] for i, env in enumerate(by_hand)]
    np.testing.assert_allclose(out["observation"][:4], firsts, rtol=1e-6)
    playing = [0, 1, 2, 3]
    rng = np.random.default_rng(0)
    while playing:
        actions = rng.integers(0, 3, len(playing))
        result = envs.step(acted(envs, playing, actions), out)
        expected = [by_hand[i].step(a) for i, a in zip(playing, actions, strict=True)]
        np.testing.assert_allclose(result.reward[playing], [e[1] for e in expected], rtol=1e-12)
        np.testing.assert_array_equal(result.terminated[playing], [e[2] for e in expected])
        np.testing.assert_array_equal(result.truncated[playing], [e[3] and not e[2] for e in expected])
        np.testing.assert_allclose(out["observation"][playing], [e[0] for e in expected], rtol=1e-6)
        assert np.flatnonzero(result.valid).tolist() == playing
        playing = np.flatnonzero(envs.playing).tolist()
    envs.close()


def test_native_episodes_equal_single_ones_from_the_same_start():
    envs = pair_envs(EnvBuilder(NATIVE), 3, 0)
    out = begun(envs, 3, seeds())
    singles = [gymnasium.make("CartPole-v1") for _ in range(6)]
    for env, start in zip(singles, out["observation"], strict=True):
        env.reset(seed=0)
        env.unwrapped.state = start.astype(np.float64)
    playing, rng = list(range(6)), np.random.default_rng(1)
    while playing:
        actions = rng.integers(0, 2, len(playing))
        result = envs.step(acted(envs, playing, actions), out)
        expected = [singles[i].step(a) for i, a in zip(playing, actions, strict=True)]
        np.testing.assert_array_equal(result.reward[playing], [e[1] for e in expected])
        ended = (result.terminated | result.truncated)[playing]
        np.testing.assert_array_equal(ended, [e[2] or e[3] for e in expected])
        shown = out["observation"][playing]  # a row whose episode is over shows what nobody acts on
        np.testing.assert_allclose(shown[~ended], np.array([e[0] for e in expected])[~ended], atol=1e-4)
        playing = np.flatnonzero(envs.playing).tolist()
    envs.close()


@pytest.mark.parametrize("max_steps", [0, 2])
def test_what_is_over_is_not_stepped(max_steps):
    steps = []

    class Watched(CountingEnv):
        def step(self, action):
            steps.append(id(self))
            return super().step(action)

    envs = SinglePairEnvs(builder(Watched), 2, max_steps)
    out = begun(envs, 2, seeds(width=2))
    envs.step(acted(envs, [], []), out)
    envs.play(np.array([False, True, True, False]))
    result = envs.step(acted(envs, [], []), out)
    counts = sorted(steps.count(each) for each in set(steps))
    assert counts == [1, 1, 2, 2]
    np.testing.assert_array_equal(out["observation"][:, 2], [1, 2, 2, 1])  # a copy of what the env overwrites
    assert result.valid.tolist() == [False, True, True, False]
    assert result.truncated.tolist() == ([False, True, True, False] if max_steps else [False] * 4)
    assert envs.playing.any() == (not max_steps)


def test_rows_of_a_pair_are_built_alike():
    built = []

    class Indexed(Plugin):
        @hookimpl
        def make_env(self, config, seed, index):
            built.append((seed, index))
            return CountingEnv()

    envs = SinglePairEnvs(EnvBuilder(PluginConfig(name="indexed").bound_to(Indexed)), 3)
    assert len(built) == 2
    for pairs in (2, 3, 1):
        begun(envs, pairs, seeds())
    assert len(built) == 6  # as many as were needed at once
    assert built[0::2] == built[1::2]
    assert len(set(built)) == 3


@pytest.mark.parametrize(
    ("way", "message"),
    [
        ("raise", r"environment [01] of the population raised ZeroDivisionError: the wheel came off"),
        ("nan_observation", r"environment 0 of the population returned a value of observation 'observation'"),
        ("nan_reward", r"environment 0 of the population returned a reward that is not finite: nan"),
        ("no_reward", r"environment 0 of the population returned a reward that is not a number"),
    ],
)
def test_failures_are_named(way, message):
    envs = SinglePairEnvs(builder(lambda: FailingEnv(way)), 1)
    out = begun(envs, 1, seeds(width=1))
    actions = acted(envs, [0, 1], 1)
    for _ in range(2):
        envs.step(actions, out)
    with pytest.raises(RunError, match=message):
        envs.step(actions, out)
