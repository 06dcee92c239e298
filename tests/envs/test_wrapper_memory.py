"""What the core knows of wrappers: raw returns, what outlasts an episode, what an episode reports."""

import itertools
import warnings

import gymnasium
import numpy as np
import pytest
from maze_devkit.envs import CountingEnv, SeededWalk
from maze_foreign_envs.native import NativeVectorEnv

from maze_core.base.errors import ConfigError, RunError
from maze_core.base.seeding import EpisodeSeeds, Purpose
from maze_core.envs.builder import EnvBuilder
from maze_core.envs.serial import SerialVectorEnv
from maze_core.envs.sources.factory import FactoryConfig, FactorySource
from maze_core.envs.sources.gymnasium import GymnasiumConfig
from maze_core.envs.spaces import allocate, space_specs
from maze_core.plugins.base import Plugin
from maze_core.plugins.config.base import PluginConfig
from maze_core.plugins.hookspecs import hookimpl
from tests.process_envs import process_envs

SEEDS = EpisodeSeeds(5, Purpose.TRAIN_EPISODES)


class Growing(gymnasium.Wrapper):
    """Multiplies rewards by the number of steps since construction, and reports that number."""

    steps = 0

    def step(self, action):
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.steps += 1
        return observation, reward * self.steps, terminated, truncated, {**info, "episode_metrics": {"age": self.steps}}

    def state(self):
        return {"steps": self.steps}

    def load_state(self, state):
        self.steps = state["steps"]


class Curriculum(gymnasium.Wrapper):
    """Makes each episode a step longer than the one before, and shows how many there were."""

    episodes = 0

    def reset(self, **options):
        self.episodes += 1
        self.left = self.episodes + 2
        return self.show(super().reset(**options)[0]), {}

    def step(self, action):
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.left -= 1
        return self.show(observation), reward, terminated, truncated or not self.left, info

    def show(self, observation):
        return np.float32([observation[0], self.episodes])

    def state(self):
        return {"episodes": self.episodes}

    def load_state(self, state):
        self.episodes = state["episodes"]


class CurriculumWrapper(Plugin):
    @hookimpl(wrapper=True)
    def make_env(self, config, seed, index):
        return Curriculum((yield))


class GrowingWrapper(Plugin):
    @hookimpl(wrapper=True)
    def make_env(self, config, seed, index):
        return Growing((yield))


class VectorWrapper(Plugin):
    """Scales the rewards of natively vectorised environments."""

    @hookimpl(wrapper=True)
    def make_env(self, config, seed, index):
        return gymnasium.wrappers.TransformReward((yield), lambda reward: 10 * reward)

    @hookimpl(wrapper=True)
    def make_vector_env(self, config, num_envs, seed):
        env = yield
        return env and gymnasium.wrappers.vector.TransformReward(env, lambda reward: 10 * reward)


class Forgetful(gymnasium.Wrapper):
    """Multiplies rewards by the number of steps since construction, which nobody can read from outside."""

    def __init__(self, env):
        super().__init__(env)
        self.steps = itertools.count()

    def step(self, action):
        observation, reward, *rest = self.env.step(action)
        return observation, reward * next(self.steps), *rest


class ForgetfulWrapper(Plugin):
    @hookimpl(wrapper=True)
    def make_env(self, config, seed, index):
        return Forgetful((yield))


class SizedConfig(PluginConfig):
    size: int = 1
    """A number."""


class Fussy(Plugin):
    Config = SizedConfig

    @hookimpl(wrapper=True)
    def make_env(self, config, seed, index):
        yield
        raise ConfigError("too small", "size")


WRAPPERS = {
    "curriculum": CurriculumWrapper,
    "growing": GrowingWrapper,
    "tenfold": VectorWrapper,
    "forgetful": ForgetfulWrapper,
    "fussy": Fussy,
}


def build(env, *wrappers):
    config = env if isinstance(env, PluginConfig) else FactoryConfig().bound_to(FactorySource.of(env))
    return EnvBuilder(config, tuple(SizedConfig(name=name).bound_to(WRAPPERS[name]) for name in wrappers), seed=1)


def begin(env):
    out = allocate(space_specs(env.observation_space, "observation"), (env.num_envs,))
    env.reset(SEEDS, out)
    return out


def drive(env, out, times):
    results = []
    for t in times:
        actions = {"action": np.random.default_rng([t, 9]).integers(0, 3, env.num_envs)}
        result = env.step(actions, out)
        results.append((result.reward.tolist(), result.terminated.tolist(), list(result.episodes)))
    return results


def test_returns_are_raw_whatever_wrappers_do_to_rewards():
    plain, wrapped = (SerialVectorEnv(build(SeededWalk, *w), 2) for w in ((), ("growing",)))
    ours, theirs = drive(wrapped, begin(wrapped), range(80)), drive(plain, begin(plain), range(80))
    episodes = [e for *_, ended in ours for e in ended]
    expected = [e for *_, ended in theirs for e in ended]
    assert len(expected) > 10
    assert [(e.env_index, e.episode_return, e.length) for e in episodes] == [
        (e.env_index, pytest.approx(e.episode_return, abs=1e-12), e.length) for e in expected
    ]
    for t, ((rewards, *_), (raw, *_)) in enumerate(zip(ours, theirs, strict=True), 1):
        np.testing.assert_allclose(rewards, np.multiply(raw, t), rtol=1e-5)
    assert episodes[0].metrics == {"age": episodes[0].length}


def test_what_a_wrapper_does_in_its_reset_is_no_part_of_the_return():
    class Warm(gymnasium.Wrapper):
        def reset(self, **arguments):
            super().reset(**arguments)
            return super().step(0)[0], {}

    class WarmWrapper(Plugin):
        @hookimpl(wrapper=True)
        def make_env(self, config, seed, index):
            return Warm((yield))

    warm, source = PluginConfig(name="warm").bound_to(WarmWrapper), FactorySource.of(lambda: CountingEnv(4))
    env = SerialVectorEnv(EnvBuilder(FactoryConfig().bound_to(source), (warm,)), 1)
    episodes = [e for *_, ended in drive(env, begin(env), range(9)) for e in ended]
    assert [(e.length, e.episode_return) for e in episodes] == [(3, pytest.approx(0.09))] * 3


@pytest.mark.parametrize("wrappers", [("growing",), ("curriculum", "growing"), ("growing", "curriculum")])
@pytest.mark.parametrize("processes", [0, 2])
def test_what_outlasts_an_episode_is_restored(processes, wrappers):
    """State and replay: a fresh environment goes on as the old one, whatever its past changes in rewards."""

    def start():
        builder = build(SeededWalk, *wrappers)
        return process_envs(builder, 3, processes) if processes else SerialVectorEnv(builder, 3)

    env, again = start(), start()
    out = begin(env)
    drive(env, out, range(25))
    state = env.state()
    began = [next(layer["steps"] for layer in each if "steps" in layer) for each in state["memory"]]
    assert np.array_equal(began + state["length"], [25] * 3)
    expected, states = [], []
    for step in range(25, 60):
        expected += drive(env, out, [step])
        states.append(env.state())
    copy = {key: leaf.copy() for key, leaf in out.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again.restore(SEEDS, state, copy)
    np.testing.assert_equal(again.state(), state)
    for step, result, state in zip(range(25, 60), expected, states, strict=True):
        assert drive(again, copy, [step]) == [result]
        np.testing.assert_equal(again.state(), state)
    np.testing.assert_equal(copy, out)
    env.close()
    again.close()


@pytest.mark.parametrize("processes", [0, 2])
def test_memory_is_put_back_before_the_next_reset(processes):
    """An evaluation begins with a reset: what it goes on from is the memory alone."""

    def start():
        builder = build(SeededWalk, "curriculum", "growing")
        return process_envs(builder, 3, processes) if processes else SerialVectorEnv(builder, 3)

    env, again = start(), start()
    drive(env, begin(env), range(17))
    memory = env.memory()
    expected = drive(env, begin(env), range(30))
    again.load_memory(memory)
    assert again.memory() == memory
    assert drive(again, begin(again), range(30)) == expected
    env.close()
    again.close()


def test_memory_is_a_copy():
    class Listing(Growing):
        def __init__(self, env):
            super().__init__(env)
            self.seen = []

        def step(self, action):
            self.seen.append(action)
            return self.env.step(action)

        def state(self):
            return {"seen": self.seen}

        def load_state(self, state):
            self.seen = state["seen"]

    env = SerialVectorEnv(lambda i: Listing(CountingEnv(100)), 1)
    drive(env, begin(env), range(4))
    memory = env.memory()
    assert env.state()["memory"] == [[{"seen": []}]]
    drive(env, begin(env), range(4))
    assert len(memory[0][0]["seen"]) == 4
    env.load_memory(memory)
    drive(env, begin(env), range(4))
    assert len(memory[0][0]["seen"]) == 4


@pytest.mark.parametrize("processes", [0, 2])
def test_rewards_that_do_not_repeat_themselves_are_warned_of(processes):
    """The observations are the same, the rewards are not: a wrapper remembers something that is not saved."""

    def start():
        builder = build(SeededWalk, "forgetful")
        return process_envs(builder, 2, processes) if processes else SerialVectorEnv(builder, 2)

    env, again = start(), start()
    out = begin(env)
    drive(env, out, range(40))
    state = env.state()
    assert state["length"].all()
    with pytest.warns(RuntimeWarning, match="not reproducible"):
        again.restore(SEEDS, state, out)
    np.testing.assert_equal(out, state["observation"])
    env.close()
    again.close()


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        ({"is_success": np.True_}, {"success": 1.0}),
        ({"is_success": np.float32(0), "episode_metrics": {"age": 2}}, {"success": 0.0, "age": 2.0}),
        ({"is_success": True, "episode_metrics": {"success": 0.5}}, {"success": 0.5}),
        ({"is_success": None}, {}),
        ({"is_success": "yes"}, {}),
    ],
)
def test_the_success_of_an_episode_is_reported(info, expected):
    class Reporting(CountingEnv):
        def step(self, action):
            return (*super().step(action)[:4], info)

    env = SerialVectorEnv(lambda i: Reporting(1), 1)
    out = begin(env)
    (episode,) = env.step({"action": np.zeros(1, np.int64)}, out).episodes
    assert episode.metrics == expected


def test_reports_that_are_no_numbers_are_named():
    class Wrong(CountingEnv):
        def step(self, action):
            return (*super().step(action)[:4], {"episode_metrics": {"age": "old"}})

    env = SerialVectorEnv(lambda i: Wrong(2), 1)
    with pytest.raises(RunError, match=r"environment 0 .*'episode_metrics' is not a mapping of names to numbers"):
        drive(env, begin(env), range(3))


def test_native_environments_take_wrappers_that_know_them():
    native = GymnasiumConfig(name="gymnasium", id="CartPole-v1", vectorization="native")
    env = NativeVectorEnv(build(native, "tenfold").vector_env(3))
    out = begin(env)
    episodes = []
    for _ in range(40):
        result = env.step({"action": np.zeros(3, np.int64)}, out)
        assert set(result.reward[result.valid]) <= {10.0}
        episodes += result.episodes
    assert episodes
    assert all(e.episode_return == e.length for e in episodes)
    with pytest.warns(RuntimeWarning, match=r"^wrappers.1: 'growing' wraps single environments"):
        assert build(native, "tenfold", "growing").vector_env(3) is None
    single = native.model_copy(update={"vectorization": "single"})
    assert build(single, "tenfold", "growing").vector_env(3) is None


def test_errors_of_wrappers_say_where_in_the_configuration():
    with pytest.raises(ConfigError, match=r"^wrappers.1.size: too small\n") as caught:
        build(SeededWalk, "growing", "fussy")(0)
    assert caught.value.where == "wrappers.1.size"
