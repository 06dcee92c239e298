"""Whole runs on Ray: the same results, learning, and what happens when something breaks."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest
from maze_devkit.envs import FailingEnv, SeededWalk

from maze_core.base.errors import RunError
from maze_core.run.context import RunContext
from tests.memory.test_foreign import TRACES
from tests.memory.test_foreign import package as package

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.usefixtures("local_ray")

RAY = {"name": "ray", "workers": 2}
ES = {
    "algorithm.n_workers": 2,
    "algorithm.n_rollouts_per_update": 12,
    "algorithm.pairs_per_job": 2,
    "algorithm.epoch_length": 2,
    "algorithm.n_epochs": 2,
    "evaluation.n_episodes": 2,
    "evaluation.num_envs": 3,
    "callbacks.tensorboard": None,
}
REPLAY = {"algorithm.initial_buffer_size": 20, "algorithm.replay_buffer_size": 200}
IMPALA = {"algorithm.num_actors": 2, "algorithm.envs_per_actor": 2, "algorithm.actors_batch_size": 4}


@pytest.fixture
def trained(tmp_path):
    """`trained(runner, env, algorithm, overrides)`: the folder of a finished run."""

    def train(runner, env, algorithm, overrides):
        folder = tmp_path / str(runner if isinstance(runner, str) else runner["name"])
        with RunContext(
            env, algorithm, runner=runner, overrides=overrides, run_dir=folder, seed=1, silent=True, preset="none"
        ) as context:
            assert context.train().outcome == "finished"
        return folder

    return train


@pytest.mark.slow
def test_es_gives_the_same_as_on_dev(trained, whole_state, assert_same):
    folders = [trained(runner, SeededWalk, "es", ES) for runner in ("dev", RAY)]
    assert_same(*(whole_state(folder) for folder in folders))


@pytest.mark.parametrize(
    ("algorithm", "options"),
    [("ppo", {}), pytest.param("sac", {"algorithm.num_envs": 3, **REPLAY}, marks=pytest.mark.slow)],
)
def test_an_algorithm_that_steps_environments_gives_the_same_as_on_dev(
    quick, whole_state, assert_same, algorithm, options
):
    folders = []
    for runner in ("dev", RAY):
        context = quick(SeededWalk, algorithm, options, runner=runner)
        context.train()
        if algorithm == "sac":
            assert context.run.algorithm.kept["collector"].on_workers == (runner != "dev")
        folders.append(context.run_dir)
    assert_same(*(whole_state(folder) for folder in folders))


@pytest.mark.slow
@pytest.mark.learning
@pytest.mark.slow
def test_a_memory_of_another_distribution_gives_the_same_as_on_dev(quick, package, whole_state, assert_same):
    contexts = [quick(SeededWalk, "ppo", {**TRACES, "model.hidden": [8]}, runner=runner) for runner in ("dev", RAY)]
    assert [each.train().outcome for each in contexts] == ["finished"] * 2
    assert_same(*(whole_state(each.run_dir) for each in contexts))


def test_impala_learns(tmp_path):
    overrides = {"evaluation.n_episodes": 4}
    with RunContext(
        "CartPole-v1", "impala", runner="ray", overrides=overrides, steps=16_000, run_dir=tmp_path / "run", seed=1,
        silent=True,
    ) as context:  # fmt: skip
        summary = context.train()
    assert summary.outcome == "finished"
    assert summary.final_evaluation["eval/return_mean"] > 100  # an untrained policy: 9 to 30


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:worker")
def test_a_run_survives_the_death_of_actors(quick):
    overrides = {**IMPALA, "algorithm.n_rollout_steps": 50, "algorithm.epoch_length": 100, "runner.workers": 1}
    context = quick(SeededWalk, "impala", overrides, runner="ray")
    (pool,) = context.run.pools
    timer = threading.Timer(0.3, lambda: os.kill(pool.pids[0], signal.SIGKILL))
    timer.start()
    summary = context.train()
    timer.join()
    assert summary.outcome == "finished"
    assert pool.restarts == 1
    assert summary.env_steps == 2 * 100 * 4 * 50  # every rollout was delivered once


class FailsLater(FailingEnv):
    """Fails after the evaluation environments of a short run are done with it."""

    def __init__(self):
        super().__init__("raise", at=25)


def test_an_environment_that_raises_ends_the_run_within_ten_seconds(quick):
    overrides = {**IMPALA, "algorithm.num_actors": 1, "algorithm.n_rollout_steps": 50, "runner.workers": 1}
    context = quick(FailsLater, "impala", overrides, runner="ray")
    assert context.run.run_dir.exists()
    began = time.monotonic()
    with pytest.raises(RunError, match=r"environment \d .* raised ZeroDivisionError: the wheel came off") as caught:
        context.train()
    context.close()
    assert time.monotonic() - began < 10
    notes = "\n".join(caught.value.__notes__)
    assert 'raise ZeroDivisionError("the wheel came off")' in notes
    assert "maze resume" in notes


@pytest.mark.slow
def test_a_function_of_the_users_own_script_reaches_the_workers(quick):
    context = quick(lambda: SeededWalk(), "ppo", {"runner.workers": 1}, runner="ray", callbacks={"jsonl": None})
    assert context.train().outcome == "finished"


def test_rollouts_are_the_same_on_ray(quick):
    context = quick(SeededWalk)
    here, there = (context.rollout(12, seed=5, runner=runner) for runner in (None, {"name": "ray", "workers": 2}))
    assert [each.rewards.tolist() for each in there] == [each.rewards.tolist() for each in here]
    assert len(here) == 12
