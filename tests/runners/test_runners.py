import os

import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv
from maze_devkit.envs import CountingEnv, SeededWalk
from maze_foreign_envs.native import NativeVectorEnv
from maze_local.pooled_envs import PooledVectorEnv
from maze_local.runner import LocalConfig, LocalRunner

from maze_core.base.seeding import EpisodeSeeds, Purpose
from maze_core.collect.pools.dev import DevConfig, DevRunner
from maze_core.envs.builder import EnvBuilder
from maze_core.envs.serial import SerialVectorEnv
from maze_core.envs.sources.factory import FactoryConfig, FactorySource
from maze_core.envs.spaces import allocate, space_specs
from maze_core.plugins.base import Plugin
from maze_core.plugins.hookspecs import hookimpl


class VectorSource(Plugin):
    Config = FactoryConfig

    @hookimpl
    def make_vector_env(self, config, num_envs, seed):
        return SyncVectorEnv([CountingEnv] * num_envs)


def builder(plugin):
    return EnvBuilder(FactoryConfig().bound_to(plugin))


def test_defaults():
    assert DevRunner(DevConfig()).default_workers == 1
    assert LocalRunner(LocalConfig()).default_workers == len(os.sched_getaffinity(0))
    assert LocalRunner(LocalConfig(workers=5)).default_workers == 5


@pytest.mark.parametrize("runner", [DevRunner(DevConfig()), LocalRunner(LocalConfig())])
def test_a_native_source_is_taken_as_it_is(runner):
    env = runner.vector_env(builder(VectorSource), 3)
    assert isinstance(env, NativeVectorEnv)
    assert env.num_envs == 3


def test_both_runners_give_the_same_episodes():
    plugin = FactorySource.of(SeededWalk)
    dev = DevRunner(DevConfig()).vector_env(builder(plugin), 4)
    local = LocalRunner(LocalConfig(workers=2)).vector_env(builder(plugin), 4)
    assert isinstance(dev, SerialVectorEnv)
    assert isinstance(local, PooledVectorEnv)
    seen = []
    for env in (dev, local):
        out = allocate(space_specs(env.observation_space, "observation"), (4,))
        env.reset(EpisodeSeeds(1, Purpose.TRAIN_EPISODES), out)
        rows = []
        for t in range(40):
            result = env.step({"action": np.full(4, t % 3)}, out)
            rows.append((out["observation"].copy(), result.reward.copy(), result.episodes))
        seen.append(rows)
        env.close()
    np.testing.assert_equal(*seen)


def test_no_more_workers_than_environments():
    local = LocalRunner(LocalConfig(workers=9)).vector_env(builder(FactorySource.of(SeededWalk)), 2)
    assert len(local.workers.pids) == 2
    local.close()
