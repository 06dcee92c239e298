"""Environments stepped by a pool: what is lost with a worker is made anew by another one."""

from __future__ import annotations

from contextlib import closing

import numpy as np
from maze_devkit.envs import SeededWalk
from maze_local.pooled_envs import PooledVectorEnv

from maze_core.base.seeding import EpisodeSeeds, Purpose
from maze_core.envs.builder import EnvBuilder
from maze_core.envs.serial import SerialVectorEnv
from maze_core.envs.sources.factory import FactoryConfig, FactorySource
from maze_core.envs.spaces import allocate, space_specs
from tests.aged import Aged
from tests.forgetful import Forgetful

SEEDS = EpisodeSeeds(3, Purpose.TRAIN_EPISODES)
NUM_ENVS = 5


def builder_of(factory):
    return EnvBuilder(FactoryConfig().bound_to(FactorySource.of(factory)), seed=3)


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


def aged():
    return Aged(SeededWalk(), every=11)


def test_what_wrappers_remember_survives_the_loss_of_workers():
    """In the middle of episodes, before the next evaluation begins, and when memory is asked for."""
    builder = builder_of(aged)
    with (
        closing(PooledVectorEnv(builder, NUM_ENVS, 2, Forgetful)) as env,
        closing(SerialVectorEnv(builder, NUM_ENVS)) as expected,
    ):
        out, reference = (
            allocate(space_specs(each.observation_space, "observation"), (5,)) for each in (env, expected)
        )
        env.load_memory([[{"age": 30 + i}] for i in range(3)])
        expected.load_memory([[{"age": 30 + i}] for i in range(3)])
        env.reset(SEEDS, out)
        expected.reset(SEEDS, reference)
        first = transitions(expected, reference, range(20))
        assert transitions(env, out, range(8)) == first[:8]
        env.workers.lose_all()
        assert transitions(env, out, range(8, 20)) == first[8:]
        assert as_lists(env.state()) == as_lists(expected.state())
        env.workers.lose_all()
        assert env.memory() == expected.memory()
        expected.reset(SEEDS, reference)
        env.workers.lose_all()
        env.reset(SEEDS, out)
        second = transitions(expected, reference, range(20))
        assert transitions(env, out, range(20)) == second
