"""Ape-X: who explores how much, the ratio of learning to acting, and actors in processes that die or are slow."""

import os
import signal
import threading
import time

import numpy as np
import pytest
from maze_devkit.envs import CountingEnv, FailingEnv, SeededWalk
from maze_dqn.config import ApexConfig

from maze_core.base.errors import ConfigError, RunError

LOCAL = {"runner.name": "local", "evaluation.num_envs": 1}


def test_every_environment_explores_in_its_own_measure():
    """Equation of section 4.1 of the paper: epsilon ** (1 + i / (N - 1) * alpha)."""
    config = ApexConfig(name="apex", num_actors=2, envs_per_actor=2)
    assert config.epsilons(1.0).tolist() == [1, 1, 1, 1]
    assert config.epsilons(0.4) == pytest.approx([0.4 ** (1 + i / 3 * 7) for i in range(4)])
    assert ApexConfig(name="apex", num_actors=1).epsilons(0.4) == pytest.approx([0.4])


def test_rows_are_those_that_were_played(learn):
    """Every step of every actor is in the replay once, and leads to the observation that followed it."""
    context = learn(CountingEnv, "apex", {"algorithm.num_actors": 3, "algorithm.envs_per_actor": 2})
    context.train()
    replay = context.run.algorithm.kept["collector"].replay
    rows = replay.read(0, replay.rows)
    taken = np.flatnonzero(rows["ahead"])
    assert len(taken) == replay.steps == context.run.env_steps
    seen = rows["obs/observation"]
    before, after = seen[taken], seen[taken + rows["ahead"][taken]]
    assert np.array_equal(after, before + np.array([0, 0, 1]))
    assert rows["reward"][taken] == pytest.approx(after[:, 2] / 100)
    assert np.array_equal(rows["terminated"][taken], after[:, 2] == 3)
    steps, counts = np.unique(before[:, 1:], axis=0, return_counts=True)
    assert {*map(tuple, steps.tolist())} >= {(0, 0), (0, 1), (0, 2), (1, 0)}
    assert counts.max() == 6  # once in each environment


def test_on_dev_each_iteration_takes_one_rollout(learn):
    context = learn(SeededWalk, "apex")
    summary = context.train()
    assert (summary.env_steps, summary.updates) == (20 + 10 * 4, 10)


@pytest.mark.parametrize("idle", [0, 3])
def test_learning_from_old_steps_is_bounded_where_the_environment_is_slow(learn, idle):
    overrides = {**LOCAL, "algorithm.max_idle": idle, "algorithm.n_epochs": 6}
    context = learn(slow_walk, "apex", overrides)
    summary = context.train()
    rollouts = (summary.env_steps - 20) / 4
    assert summary.updates == 30
    assert 30 / (idle + 1) <= rollouts + 1
    if idle:
        assert rollouts < 25  # the learner did not wait for each
    else:
        assert rollouts >= 30


def slow_walk():
    class Slow(SeededWalk):
        def step(self, action):
            time.sleep(0.01)
            return super().step(action)

    return Slow()


@pytest.mark.filterwarnings("ignore:worker")
def test_a_run_survives_the_death_of_an_actor(learn):
    context = learn(slow_walk, "apex", {**LOCAL, "algorithm.n_epochs": 8})
    (pool,) = context.run.environments.pools
    timer = threading.Timer(0.5, lambda: os.kill(pool.pids[0], signal.SIGKILL))
    timer.start()
    try:
        assert context.train().outcome == "finished"
    finally:
        timer.cancel()
    assert pool.restarts == 1


@pytest.mark.slow
def test_a_run_of_processes_goes_on_from_its_checkpoint(learn):
    context = learn(SeededWalk, "apex", LOCAL)
    context.train()
    longer = learn(SeededWalk, "apex", {**LOCAL, "algorithm.n_epochs": 4})
    summary = longer.resume(context.run_dir)
    assert (summary.outcome, summary.updates) == ("finished", 20)
    assert longer.run.algorithm.kept["collector"].replay.steps == longer.run.env_steps


@pytest.mark.parametrize(
    ("overrides", "where"),
    [
        ({"model.memory": "gru"}, "model.memory"),
        ({"algorithm.initial_buffer_size": 600}, "algorithm.initial_buffer_size"),
        ({"algorithm.num_actors": 80}, "algorithm.replay_buffer_size"),
        ({"algorithm.her_goals": 4}, "algorithm"),
    ],
)
def test_what_cannot_be_is_said(learn, overrides, where):
    with pytest.raises(ConfigError, match=where):
        learn(SeededWalk, "apex", overrides).train()


class FailsLater(FailingEnv):
    """Fails some steps after the evaluation environments of a short run are done with it."""

    def __init__(self):
        super().__init__("raise", at=20)


@pytest.mark.parametrize("runner", [{}, LOCAL])
def test_an_environment_that_fails_is_named(learn, runner):
    with pytest.raises(RunError, match=r"environment \d"):
        learn(FailsLater, "apex", {**runner, "algorithm.n_epochs": 40}).train()
