"""Several learners as processes: what listens where, and what happens when one of them, or the driver, is killed."""

from __future__ import annotations

import os
import signal
import time

import pytest

from tests.sockets import alive, listening, tree

pytestmark = pytest.mark.slow

SMALL = (
    "--n-rollout-steps", 8, "--num-envs", 3, "--epoch-length", 2, "--set", "evaluation.n_episodes=1",
    "--set", "callbacks.tensorboard=null", "--preset", "none", "--seed", 1,
)  # fmt: skip


@pytest.fixture
def training(maze, probes, tmp_path):
    """A run with two learners that has written a checkpoint and goes on: its process, and the other learner's."""
    run = maze(
        "train", "ppo", "--env", f"{probes}:Walk-v0", "--n-epochs", 10**6, "--learners", 2, *SMALL,
        "--run-dir", tmp_path / "run", wait=False,
    )  # fmt: skip
    log, deadline = tmp_path / "run" / "metrics.jsonl", time.monotonic() + 300
    while not (log.exists() and len(log.read_bytes().splitlines()) >= 2):
        assert run.poll() is None, run.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    (learner,) = [pid for pid in tree(run.pid) if _computes(pid, run.pid)]
    return run, learner


def _computes(pid, driver):
    """True for a worker process: the fork server and the resource tracker have no connection to the driver."""
    return pid != driver and any(True for _ in listening([pid]))


def _ended(pids, seconds=60):
    deadline = time.monotonic() + seconds
    while any(alive(pid) for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def test_a_learner_that_is_killed_ends_the_run_which_one_learner_resumes(maze, training, tmp_path):
    run, learner = training
    everyone = tree(run.pid)
    assert {line.split()[0] for line in listening(everyone)} == {"127.0.0.1"}
    os.kill(learner, signal.SIGKILL)
    code = run.wait(120)
    _, err = run.communicate()
    assert code == 1, err
    assert f"learner 1 (process {learner}) died with exit code -9 (SIGKILL)" in err
    assert err.count("rror") == 1, err
    assert "Traceback" not in err
    assert "maze resume" in err
    assert _ended(everyone)
    done = len((tmp_path / "run" / "metrics.jsonl").read_bytes().splitlines())
    resumed = maze("resume", tmp_path / "run", "--set", "learners=1", "--set", f"algorithm.n_epochs={done + 2}")
    assert resumed.returncode == 0, resumed.stderr


def test_learners_end_with_a_driver_that_is_killed(training):
    run, _ = training
    everyone = tree(run.pid)
    run.kill()
    run.wait(60)
    assert _ended(everyone)
