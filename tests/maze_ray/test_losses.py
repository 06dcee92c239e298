"""Parts of a run and of its cluster are killed: what goes on, what is said, and what is left."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.maze_ray.trained import TrainedRun, command_of, environment_of

pytest.importorskip("ray")
pytestmark = pytest.mark.slow


@pytest.fixture
def trained(tmp_path):
    """`trained(address, algorithm, settings, resume)`: a run, killed at the end of the test."""
    started = []

    def start(address, *what, resume=False):
        started.append(TrainedRun(tmp_path, address, *what, resume=resume))
        return started[-1]

    yield start
    for run in started:
        if run.driver.poll() is None:
            run.driver.kill()
        run.driver.wait()


def kill(node, part):
    """Kill the process of a node of the cluster."""
    for each in node.all_processes[part]:
        each.process.kill()


def test_a_worker_a_node_and_the_driver_are_killed_one_after_the_other(cluster, trained):
    run = trained(cluster.address)
    run.wait_for_workers(3)  # two for rollouts and one for evaluations; the latter needs no CPU
    os.kill(run.workers()[0], signal.SIGKILL)
    run.wait_for_workers(3)
    began = time.monotonic()
    run.wait_for_epoch(run.epoch() + 2, 120)
    pace = time.monotonic() - began
    (node,) = [node for node in cluster.list_all_nodes() if node is not cluster.head_node]
    kill(node, "raylet")
    run.wait_for_epoch(run.epoch() + 2, 10 + 3 * pace)  # the others do its work at once, and Ray tells of it later
    run.driver.kill()
    run.driver.wait()
    cluster.remove_node(node, allow_graceful=False)
    run.wait_until_clean(30)
    resumed = trained(cluster.address, resume=True)
    resumed.driver.terminate()
    assert resumed.driver.wait(30) == 143, resumed.said()
    resumed.wait_until_clean(30)
    assert resumed.outcome() == "interrupted"


ONE = ("impala", {"algorithm.num_actors": 1, "evaluation.n_episodes": 0})
"""Has one worker."""
LONG = (
    "ppo",
    {
        "algorithm.n_optimization_epochs": 10_000,
        "algorithm.n_rollout_steps": 500,
        "runner.workers": 1,
        "evaluation.n_episodes": 0,
    },
    "CartPole-v1",
)
"""Learns from its first rollouts for an hour."""


def test_the_head_of_a_cluster_is_lost(cluster, trained):
    """Its node; that its server alone is lost, a pool notices (`test_cluster.py`)."""
    run = trained(cluster.address, *ONE)
    kill(cluster.head_node, "raylet")
    began = time.monotonic()
    assert run.driver.wait(30) == 1, run.said()
    assert time.monotonic() - began < 15
    check_what_is_said(run, "the node on this")
    assert run.outcome() == "failed"
    run.wait_until_clean(15)


def test_the_head_of_a_ray_of_its_own_is_lost(trained):
    run = trained(None, *LONG)
    time.sleep(3.0)  # into the update
    (pid,) = [pid for pid in run.processes() if "gcs/gcs_server" in command_of(pid)]
    folder = Path(environment_of(pid)["MAZE_RAY_FOLDER"])
    os.kill(pid, signal.SIGKILL)
    began = time.monotonic()
    assert run.driver.wait(30) == 1, run.said()
    assert time.monotonic() - began < 15
    check_what_is_said(run, "its head has ended")
    assert run.outcome() == "failed"
    run.wait_until_clean(15)
    assert not folder.exists()


def check_what_is_said(run, why):
    """The error is one sentence and what to do next."""
    said = run.said()
    error = said[said.rindex("error: the Ray cluster at ") :].splitlines()
    assert error[0].partition(" is gone: ")[2].startswith(why)
    assert error[1].endswith(f"Next: maze resume {run.run_dir}")
    assert len(error) == 2
    assert "[20" not in said  # a line of Ray's own log begins with the date
