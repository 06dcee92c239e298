"""Environments stepped on workers: the same transitions as in this process, also after a worker was lost."""

from __future__ import annotations

import os
import signal
from contextlib import closing

import pytest
from maze_devkit.envs import FailingEnv
from maze_devkit.probes import Workshop
from maze_foreign_envs.native import NativeVectorEnv

from maze_core.base.errors import ConfigError, RunError
from maze_core.envs.builder import EnvBuilder
from maze_core.envs.serial import SerialVectorEnv
from maze_core.envs.spaces import allocate, space_specs
from maze_core.plugins import discovery
from maze_core.plugins.config.base import PluginConfig
from tests.maze_local.test_pooled_envs import NUM_ENVS, SEEDS, as_lists, builder_of, transitions

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.usefixtures("local_ray")


@pytest.fixture(autouse=True)
def light_workers(monkeypatch):
    """What workers import ahead, environments do without."""
    from tests.maze_ray.light_worker import LightWorker

    monkeypatch.setattr("maze_ray.actors.Worker", LightWorker)


def start(factory, workers=2):
    from maze_ray.config import RayConfig
    from maze_ray.runner import RayRunner

    return RayRunner(RayConfig(name="ray", workers=workers)).vector_env(builder_of(factory), NUM_ENVS)


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
        os.kill(env.workers.pids[0], signal.SIGKILL)
        with pytest.warns(RuntimeWarning, match="was lost"):
            assert transitions(env, out, range(40, 60)) == further
        assert as_lists(env.state()) == as_lists(expected.state())


class Breaks(FailingEnv):
    def __init__(self):
        super().__init__("raise")


def test_an_environment_that_raises_gives_its_index_and_its_traceback():
    env = start(Breaks, workers=1)
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
        start(refuses, workers=1)


def test_a_native_environment_stays_in_this_process():
    from maze_ray.config import RayConfig
    from maze_ray.runner import RayRunner

    config: PluginConfig = discovery.load("env", "gymnasium").Config(
        name="gymnasium", id="CartPole-v1", vectorization="native"
    )
    with closing(RayRunner(RayConfig(name="ray")).vector_env(EnvBuilder(config), 3)) as env:
        assert isinstance(env, NativeVectorEnv)
