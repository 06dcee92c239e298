"""The pool of the runner `ray`: answers, parameters, large results, and workers that die or fail."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import ExitStack, contextmanager

import pytest

from maze_core.base.errors import ConfigError, RunError
from tests.maze_ray.light import Light
from tests.runners.pool_contract import Answers, JobContract, PoolContract, collect_all

ray = pytest.importorskip("ray")
pytest.importorskip("maze_ray")
pytestmark = pytest.mark.usefixtures("local_ray")


@contextmanager
def starting():
    """`start(count, task, **options)`: a pool all of whose workers are there."""
    from maze_ray.config import RayConfig
    from maze_ray.pool import RayPool

    with ExitStack() as stack:

        def start(count=2, task=None, **options):
            pool = RayPool(task or Light(), count, RayConfig(name="ray", **options), 1.0)
            stack.callback(pool.close)
            stack.callback(pool.close)
            while len(pool.pids) < count:
                pool._receive(None)
            return pool

        yield start


@pytest.fixture
def start():
    with starting() as start:
        yield start


@pytest.fixture(scope="module")
def pool(local_ray):
    """For tests that do no harm to it."""
    with starting() as start:
        yield start(2)


class TestJobs(JobContract):
    """Workers that are Ray's actors."""


class TestPools(PoolContract):
    """Pools of them."""


def test_workers_of_a_ray_of_the_run_have_its_priority(pool):
    """Ray's own niceness of 15 would let the driver interrupt the workers that it waits for."""
    assert {os.getpriority(os.PRIO_PROCESS, pid) for pid in pool.pids} == {os.getpriority(os.PRIO_PROCESS, 0)}


def test_a_task_that_cannot_be_sent_says_so(start):
    task = Answers()
    task.ready_object = threading.Lock()
    with pytest.raises(ConfigError, match="--runner dev"):
        start(1, task)


class Absent:
    """Stands for something that only the driver can import."""

    def __reduce__(self):
        return __import__, ("maze_of_nobody",)


def test_a_node_that_lacks_a_package_says_what_to_do(start):
    task = Answers()
    task.ready_object = Absent()
    with pytest.raises(ConfigError, match=r"(?s)No module named 'maze_of_nobody'.*Install on every node"):
        start(1, task)


def test_other_versions_on_a_node(start, monkeypatch):
    from maze_ray import pool

    ours = pool.versions()
    monkeypatch.setattr(pool, "versions", lambda: {**ours, "torch": "1.0"})
    with pytest.warns(RuntimeWarning, match=r"has torch 2\S+ instead of 1.0"):
        start(1)
    monkeypatch.setattr(pool, "versions", lambda: {**ours, "maze-core": "9.9"})
    with pytest.raises(ConfigError, match=r"maze-core \S+ instead of 9.9.*\n.*same versions"):
        start(1)


@pytest.mark.filterwarnings("ignore:worker")
def test_beyond_the_restarts_workers_are_dropped_and_the_last_one_ends_it(start):
    pool = start(2, max_restarts=0)
    os.kill(pool.pids[0], signal.SIGKILL)
    jobs = [pool.submit(("who", 0.0), worker=0) for _ in range(4)]
    with pytest.warns(RuntimeWarning, match=r"max_restarts is 0\); the run continues with 1 worker$"):
        results = collect_all(pool)
    assert sorted(result.job for result in results) == jobs
    assert {result.worker for result in results} == {1}
    pool.submit(("exit", 3))
    began = time.monotonic()
    with pytest.raises(RunError, match="no worker is left"):
        pool.collect()
    assert time.monotonic() - began < 10
