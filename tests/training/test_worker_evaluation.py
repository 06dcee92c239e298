"""Evaluations on the workers that step the environments: the same episodes as in this process."""

from __future__ import annotations

import pickle

import pytest
import torch
from maze_devkit.envs import SeededWalk
from maze_devkit.probes import Doors
from maze_local import pooled_envs
from maze_local.pooled_envs import PooledVectorEnv

from maze_core.collect.pools.dev import DevRunner
from tests.forgetful import Forgetful
from tests.training.test_worker_rollouts import aged

SMALL = {"algorithm.num_envs": 2, "algorithm.n_rollout_steps": 8, "evaluation.num_envs": 5, "evaluation.n_episodes": 12}


@pytest.fixture
def pooled(monkeypatch):
    """`pooled(workers, every=0, dumps=…)`: `dev` steps environments with so many workers; 0: in this process."""
    plain = DevRunner.vector_env
    pools = []

    class Counting(Forgetful):
        def __init__(self, task, count):
            super().__init__(task, count)
            self.commands = []
            pools.append(self)

        def submit(self, job, worker=None, patience=1.0):
            self.commands.append(job.method.__name__)
            return super().submit(job, worker, patience)

    def pool(workers, every=0, dumps=pickle.dumps):
        def vector_env(runner, builder, num_envs):
            if not workers or builder.purpose != "evaluation":
                return plain(runner, builder, num_envs)
            return PooledVectorEnv(builder, num_envs, workers, Counting, dumps)

        monkeypatch.setattr(DevRunner, "vector_env", vector_env)
        monkeypatch.setattr(Forgetful, "every", every)
        pools.clear()
        return pools

    return pool


CASES = {
    "most likely actions": (SeededWalk, {}),
    "fewer episodes than environments": (SeededWalk, {"evaluation.n_episodes": 3}),
    "memory, samples": (SeededWalk, {"model.memory": "gru", "evaluation.deterministic": False}),
    "masks and statistics": (Doors, {"model.normalize_observations": True}),
    "a limit of steps": (SeededWalk, {"evaluation.max_episode_steps": 7}),
}


EARLY = ("most likely actions",)
"""With these, workers also tell how far they are."""


@pytest.mark.parametrize(("case", "workers"), [*((case, 2) for case in CASES), *((case, 5) for case in EARLY)])
def test_the_same_run(quick, pooled, whole_state, assert_same, monkeypatch, case, workers):
    """Also with workers that are lost, and with ones that tell how far they are."""
    env, options = CASES[case]
    folders, finals = [], []
    for count in (0, workers):
        pools = pooled(count, every=4 if workers == 2 else 0)
        monkeypatch.setattr(pooled_envs, "_SLICE", 10.0 if workers == 2 else 0.0)
        context = quick(env, "a2c", SMALL | options)
        finals.append({k: v for k, v in context.train().final_evaluation.items() if not k.startswith("time/")})
        folders.append(context.run_dir)
    assert "play" in pools[0].commands
    assert "step" not in pools[0].commands
    assert finals[0] == finals[1]
    assert_same(*(whole_state(folder) for folder in folders))


def test_workers_play_with_what_wrappers_remember_of_training(quick, pooled, whole_state, assert_same):
    folders = []
    for count in (0, 2):
        pools = pooled(count)
        context = quick(aged, "a2c", SMALL)
        context.train()
        folders.append(context.run_dir)
    assert "play" in pools[0].commands
    assert "step" not in pools[0].commands
    assert_same(*(whole_state(folder) for folder in folders))


def test_what_workers_would_play_otherwise_is_stepped_from_here(quick, pooled):
    pools = pooled(2)
    context = quick(SeededWalk, "a2c", SMALL)
    act = context.run.policy.distribution

    def noisy(*arguments):
        torch.rand(1)
        return act(*arguments)

    context.run.policy.distribution = noisy
    context.run.evaluate(1)
    assert "play" not in pools[0].commands


def test_a_policy_that_workers_cannot_read_plays_from_here(quick, pooled):
    """Such as one whose class is defined in a notebook."""
    pooled(0)
    expected = quick(SeededWalk, "a2c", SMALL).run.evaluate(1)
    pools = pooled(2, dumps=lambda game: b"cno_such_module\nPolicy\n.")
    run = quick(SeededWalk, "a2c", SMALL).run
    assert without_times(run.evaluate(1)) == without_times(expected)
    assert {"play", "step"} <= set(pools[0].commands)


def test_an_interruption_ends_the_evaluation_and_the_next_one_is_whole(quick, pooled, monkeypatch):
    monkeypatch.setattr(pooled_envs, "_SLICE", 0.0)
    pooled(0)
    expected = quick(SeededWalk, "a2c", SMALL).run.evaluate(1)
    pools = pooled(2)
    run = quick(SeededWalk, "a2c", SMALL).run
    from maze_core.run.episodes.evaluation import EvaluationInterrupted

    collect, answers = pools[0].collect, []

    def interrupting(*arguments):
        answers.append(collect(*arguments))
        run.interrupted = pools[0].commands.count("play_on") >= 3
        return answers[-1]

    monkeypatch.setattr(pools[0], "collect", interrupting)
    with pytest.raises(EvaluationInterrupted):
        run.evaluate(1)
    monkeypatch.setattr(pools[0], "collect", collect)
    run.interrupted = False
    assert without_times(run.evaluate(1)) == without_times(expected)


def without_times(metrics):
    return {key: value for key, value in metrics.items() if not key.startswith("time/")}
