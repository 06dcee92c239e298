"""Replay that workers collect: bit-equal to that of one process, also where workers are lost or a run moves."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack
from itertools import count

import numpy as np
import pytest
from gymnasium import spaces
from maze_devkit.envs import SeededWalk
from maze_devkit.probes import Doors, Workshop

from maze_core import RunContext
from maze_core.acting.exploration import Exploration
from maze_core.runners import pooled_envs
from maze_core.runners.dev import DevRunner
from maze_core.runners.pooled_envs import PooledVectorEnv
from maze_core.training.share_replay import ShareCollector
from tests.training.test_share_rollouts import Forgetful, Pushed, aged

SMALL = {
    "algorithm.num_envs": 5,
    "algorithm.n_epochs": 3,
    "algorithm.epoch_length": 3,
    "algorithm.batch_size": 16,
    "algorithm.initial_buffer_size": 20,
    "algorithm.replay_buffer_size": 300,
    "evaluation.num_envs": 2,
    "evaluation.n_episodes": 2,
    "callbacks.tensorboard": None,
}
SEVERAL = {"algorithm.n_rollout_steps": 12}
STEPS = {"algorithm.collect_steps": 60, "algorithm.utd": 0.05}


@pytest.fixture
def built(tmp_path, known_plugins):
    """`built(env, algorithm, options, **parts)`: a silent RunContext of three epochs of three updates, seed 1."""
    numbers = count()
    with ExitStack() as stack:

        def build(env, algorithm, options, **parts):
            parts = {"run_dir": tmp_path / f"run{next(numbers)}", "seed": 1, "preset": "none", "silent": True, **parts}
            return stack.enter_context(RunContext(env, algorithm, overrides=SMALL | options, **parts))

        yield build


@pytest.fixture
def shared(monkeypatch):
    """`shared(workers, every=0)`: from now on `dev` collects with so many workers."""

    def share(workers, every=0):
        def collecting_env(runner, builder, num_envs):
            return PooledVectorEnv(builder, num_envs, min(workers, num_envs), Forgetful)

        monkeypatch.setattr(DevRunner, "has_collectors", bool(workers))
        monkeypatch.setattr(DevRunner, "collecting_env", collecting_env)
        monkeypatch.setattr(Forgetful, "every", every)

    return share


def shared_of(context):
    return context.run.algorithm._collector._shared


CASES = {
    "sac": ("sac", Pushed, STEPS),
    "sac, discrete": ("sac", SeededWalk, SEVERAL),
    "td3": ("td3", Pushed, STEPS),
    "dqn": ("dqn", SeededWalk, SEVERAL | {"algorithm.exploration_steps": 300}),
}


@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("case", CASES)
def test_a_run_is_bit_equal(built, shared, whole_state, assert_same, monkeypatch, case, workers):
    algorithm, env, options = CASES[case]
    folders = []
    for number in (0, workers):
        shared(number, every=5 if workers == 2 else 0)
        monkeypatch.setattr(pooled_envs, "_LONG_SLICE", 0.0 if workers == 3 else 10.0)
        context = built(env, algorithm, options)
        assert (shared_of(context) is not None) == bool(number)
        context.train()
        folders.append(context.run_dir)
    assert_same(*(whole_state(folder) for folder in folders))
