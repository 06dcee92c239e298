"""Environments stepped on workers: the same transitions as in this process, also after a worker was lost."""

from __future__ import annotations

import os
import signal
from contextlib import closing

import gymnasium
import numpy as np
import pytest
from maze_devkit.envs import FailingEnv, SeededWalk
from maze_devkit.probes import Workshop

from maze_core.base.errors import ConfigError, RunError
from maze_core.base.seeding import EpisodeSeeds, Purpose
from maze_core.envs.builder import EnvBuilder
from maze_core.envs.native import NativeVectorEnv
from maze_core.envs.serial import SerialVectorEnv
from maze_core.envs.sources.factory import FactorySource
from maze_core.envs.spaces import allocate, space_specs
from maze_core.plugins import discovery
from maze_core.plugins.config.base import PluginConfig

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.usefixtures("local_ray")

SEEDS = EpisodeSeeds(3, Purpose.TRAIN_EPISODES)
NUM_ENVS = 5


def builder_of(factory):
    load = discovery.overlay({("env", "factory"): FactorySource.of(factory)})
    return EnvBuilder(load("env", "factory").Config(name="factory"), seed=3, load=load)


def start(factory, workers=2):
    from maze_ray.config import RayConfig
    from maze_ray.runner import RayRunner

    return RayRunner(RayConfig(name="ray", workers=workers)).vector_env(builder_of(factory), NUM_ENVS)


def sampled_actions(env, step):
    """The same at the same step, whoever asks."""
    specs = space_specs(env.action_space, "action")
    actions = allocate(specs, (env.num_envs,))
    random = np.random.default_rng(step)
    for array in actions.values():
        array[...] = random.integers(1, 2, array.shape) if array.dtype.kind in "iu" else random.random(array.shape)
    return actions


def transitions(env, out, steps):
    """Everything that steps give, as plain values."""
    given = []
    for step in steps:
        result = env.step(sampled_actions(env, step), out)
        last = {} if result.final_obs is None else {k: v.tolist() for k, v in result.final_obs.items()}
        flags = [result.reward, result.terminated, result.truncated, result.valid, result.final_indices]
        given.append(([a.tolist() for a in flags], last, result.episodes, {k: v.tolist() for k, v in out.items()}))
    return given


def as_lists(state):
    return {
        key: {k: v.tolist() for k, v in value.items()} if isinstance(value, dict) else np.asarray(value).tolist()
        for key, value in state.items()
    }


@pytest.mark.slow
def test_transitions_and_states_are_those_of_this_process():
    with closing(start(Workshop)) as env, closing(SerialVectorEnv(builder_of(Workshop), NUM_ENVS)) as expected:
        assert env.observation_space == expected.observation_space
        out, reference = (
            allocate(space_specs(each.observation_space, "observation"), (5,)) for each in (env, expected)
        )
        env.reset(SEEDS, out)
        expected.reset(SEEDS, reference)
        assert transitions(env, out, range(40)) == transitions(expected, reference, range(40))
        state = env.state()
        assert as_lists(state) == as_lists(expected.state())
        further = transitions(expected, reference, range(40, 60))
        assert transitions(env, out, range(40, 60)) == further
        env.restore(SEEDS, state, out)
        assert transitions(env, out, range(40, 60)) == further

        # A worker is lost in the middle of episodes: another one replays them.
        env.restore(SEEDS, state, out)
        for victim in env.workers.pids:
            os.kill(victim, signal.SIGKILL)
        with pytest.warns(RuntimeWarning, match="was lost"):
            assert transitions(env, out, range(40, 60)) == further
        assert as_lists(env.state()) == as_lists(expected.state())


class Aged(gymnasium.Wrapper):
    """Adds the number of steps since construction to rewards, and cuts an episode where it divides by eleven."""

    age = 0

    def step(self, action):
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.age += 1
        return observation, reward + self.age, terminated, truncated or self.age % 11 == 0, info

    def state(self):
        return {"age": self.age}

    def load_state(self, state):
        self.age = state["age"]


def aged():
    return Aged(SeededWalk())


@pytest.mark.slow
def test_what_wrappers_remember_survives_the_loss_of_workers():
    """In the middle of episodes, before the next evaluation begins, and when memory is asked for."""
    with closing(start(aged)) as env, closing(SerialVectorEnv(builder_of(aged), NUM_ENVS)) as expected:
        out, reference = (
            allocate(space_specs(each.observation_space, "observation"), (5,)) for each in (env, expected)
        )

        def lose(times):
            for victim in env.workers.pids:
                os.kill(victim, signal.SIGKILL)
            with pytest.warns(RuntimeWarning, match="was lost"):
                return times()

        env.load_memory([[{"age": 30 + i}] for i in range(3)])
        expected.load_memory([[{"age": 30 + i}] for i in range(3)])
        env.reset(SEEDS, out)
        expected.reset(SEEDS, reference)
        first = transitions(expected, reference, range(20))
        assert transitions(env, out, range(8)) == first[:8]
        assert lose(lambda: transitions(env, out, range(8, 20))) == first[8:]
        assert as_lists(env.state()) == as_lists(expected.state())
        assert lose(env.memory) == expected.memory()
        expected.reset(SEEDS, reference)
        lose(lambda: env.reset(SEEDS, out))
        second = transitions(expected, reference, range(20))
        assert transitions(env, out, range(20)) == second


class Breaks(FailingEnv):
    def __init__(self):
        super().__init__("raise")


def test_an_environment_that_raises_gives_its_index_and_its_traceback():
    env = start(Breaks)
    out = allocate(space_specs(env.observation_space, "observation"), (NUM_ENVS,))
    env.reset(SEEDS, out)
    with pytest.raises(RunError, match=r"environment \d \(episode 0, step 3\) raised ZeroDivisionError") as caught:
        transitions(env, out, range(5))
    assert 'raise ZeroDivisionError("the wheel came off")' in caught.value.__notes__[0]
    with pytest.raises(RunError, match="closed"):
        transitions(env, out, range(5))
    env.close()


def refuses():
    raise ConfigError("no such world", "env.world")


def test_an_environment_that_cannot_be_built():
    with pytest.raises(ConfigError, match=r"env\.world: no such world"):
        start(refuses)


def test_a_native_environment_stays_in_this_process():
    from maze_ray.config import RayConfig
    from maze_ray.runner import RayRunner

    config: PluginConfig = discovery.load("env", "gymnasium").Config(
        name="gymnasium", id="CartPole-v1", vectorization="native"
    )
    with closing(RayRunner(RayConfig(name="ray")).vector_env(EnvBuilder(config), 3)) as env:
        assert isinstance(env, NativeVectorEnv)
