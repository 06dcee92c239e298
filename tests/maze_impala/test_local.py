"""IMPALA with actors in processes: staleness, deaths, failures, what cannot be sent."""

import os
import signal
import threading
import time
from contextlib import closing

import pytest
from maze_devkit.envs import FailingEnv, SeededWalk

from maze_core.base.errors import ConfigError, RunError
from maze_core.plugins.base import Plugin
from maze_core.plugins.hookspecs import hookimpl
from maze_core.run import api
from maze_core.run.saved import saved_run
from tests.assemblies import assembly_of

LOCAL = {"runner.name": "local", "evaluation.num_envs": 1}


def slow_learner(seconds):
    """A loss that takes its time, so that trajectories wait."""

    class Slow(Plugin):
        @hookimpl(wrapper=True)
        def compute_loss(self, policy, batch):
            time.sleep(seconds)
            return (yield)

    return Slow


def watch_staleness(run):
    seen, record = [], run.record

    def watched(values):
        seen.extend(value for name, value in values.items() if name == "train/staleness_mean")
        record(values)

    run.record = watched
    return seen


@pytest.mark.parametrize(
    ("factor", "actors", "envs", "batch"), [(1, 2, 1, 4), (1, 2, 4, 4), (0, 1, 1, 4), (2, 3, 1, 2)]
)
def test_no_trajectory_is_staler_than_promised(small, factor, actors, envs, batch):
    overrides = {
        **LOCAL,
        "algorithm.queue_out_of_sync_factor": factor,
        "algorithm.num_actors": actors,
        "algorithm.envs_per_actor": envs,
        "algorithm.actors_batch_size": batch,
        "algorithm.epoch_length": 20,
        "algorithm.n_epochs": 1,
    }
    context = small(SeededWalk, overrides=overrides, callbacks={"slow": slow_learner(0.01)})
    config = context.run.algorithm.config
    seen = watch_staleness(context.run)
    context.train()
    assert len(seen) == 20 * batch // envs
    assert max(seen) <= config.max_staleness
    if factor > 0:
        assert max(seen) >= 1  # the learner is slow: the queue does fill


def test_the_staleness_is_logged(small):
    context = small(SeededWalk, overrides=LOCAL)
    context.train()
    line = (context.run_dir / "metrics.jsonl").read_text().splitlines()[-1]
    assert '"train/staleness_mean"' in line


@pytest.mark.filterwarnings("ignore:worker")
def test_a_run_survives_the_death_of_actors(small):
    overrides = {**LOCAL, "algorithm.n_epochs": 3, "algorithm.epoch_length": 40}
    context = small(SeededWalk, overrides=overrides, callbacks={"slow": slow_learner(0.02)})
    (pool,) = context.run.environments.pools
    timers = []
    for delay, worker in ((0.3, 0), (0.9, 1)):
        timers.append(threading.Timer(delay, lambda worker=worker: os.kill(pool.pids[worker], signal.SIGKILL)))
        timers[-1].start()
    summary = context.train()
    for timer in timers:
        timer.join()
    assert summary.outcome == "finished"
    assert pool.restarts == 2
    assert summary.env_steps == 3 * 40 * 4 * 9  # every rollout was delivered once


def test_too_many_deaths_end_the_run_with_its_checkpoint_named(small):
    overrides = {**LOCAL, "runner.max_restarts": 0, "algorithm.n_epochs": 1000, "callbacks.early_stopping.patience": 0}
    context = small(SeededWalk, overrides=overrides)
    (pool,) = context.run.environments.pools
    threading.Timer(1.0, lambda: os.kill(pool.pids[1], signal.SIGKILL)).start()
    began = time.monotonic()
    with pytest.raises(RunError, match=r"(?s)worker 1 .*SIGKILL.*reopen"):
        context.train()
    assert time.monotonic() - began < 6


class FailsLater(FailingEnv):
    """Fails some steps after the evaluation environments of a short run are done with it."""

    def __init__(self):
        super().__init__("raise", at=20)


def test_an_environment_that_fails_in_an_actor_gives_its_traceback(small):
    context = small(FailsLater, overrides=LOCAL)
    with pytest.raises(RunError, match=r"environment \d") as caught:
        context.train()
    assert "Traceback" in caught.value.__notes__[0]


def test_ready_objects_that_cannot_be_sent_propose_the_other_runner(small):
    with pytest.raises(ConfigError, match='runner="dev"'):
        small(lambda: SeededWalk(), overrides=LOCAL).train()


def test_a_run_on_processes_goes_on_from_its_checkpoint_with_new_episodes(small):
    overrides = {**LOCAL, "algorithm.n_epochs": 2}
    first = small(SeededWalk, overrides=overrides)
    first.train(n_epochs=1)
    asked = first.run.algorithm.state()["asked"]
    first.close()
    second = small(SeededWalk, overrides=overrides)
    assert second.resume(first.run_dir).outcome == "finished"
    assert second.run.algorithm.state()["asked"] > asked
    assert second.run.epoch == 2


def test_a_run_moves_from_one_process_to_several_and_back(small):
    context = small(SeededWalk, overrides={"algorithm.n_epochs": 4})
    context.train(n_epochs=1)
    assembly = assembly_of(context.run)
    context.close()
    for epoch, runner in ((2, "local"), (3, "dev")):
        with closing(saved_run.reopen(context.run_dir, [f"runner.name={runner}"], assembly=assembly)) as run:
            run.until_epoch = epoch
            assert api.carry_out(run).epochs == epoch
            assert run.env_steps == epoch * 2 * 4 * 9
