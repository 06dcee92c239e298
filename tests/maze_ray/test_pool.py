"""The pool of the runner `ray`: answers, parameters, large results, and workers that die or fail."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import ExitStack, contextmanager

import numpy as np
import pytest

from maze_core.errors import ConfigError, RunError
from tests.runners.test_pool_processes import Answers

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.usefixtures("local_ray")


@contextmanager
def starting():
    """`start(count, task, **options)`: a pool all of whose workers are there."""
    from maze_ray.config import RayConfig
    from maze_ray.pool import RayPool

    with ExitStack() as stack:

        def start(count=2, task=None, **options):
            pool = RayPool(task or Answers(), count, RayConfig(name="ray", **options), 1.0)
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


def collect_all(pool):
    results = []
    while (result := pool.collect()) is not None:
        results.append(result)
    return results


def test_every_job_is_answered_once_and_a_job_for_one_worker_goes_there(pool):
    numbers = [pool.submit(("square", x)) for x in range(30)]
    bound = [pool.submit(("who", 0.0), worker=1) for _ in range(5)]
    results = {result.job: result for result in collect_all(pool)}
    assert [results[number].value for number in numbers] == [number**2 for number in numbers]
    assert [results[job].value[0] for job in bound] == [1] * 5
    assert sorted(results) == numbers + bound
    calls = [results[job].value[2] for job in bound]
    assert calls == sorted(calls)  # in the order of submission
    assert pool.state() == {}


def test_nothing_pending_or_nothing_in_time_is_none(pool):
    assert pool.collect() is None
    pool.submit(("who", 1.0))
    began = time.monotonic()
    assert pool.collect(timeout=0.05) is None
    assert time.monotonic() - began < 0.5
    assert pool.collect() is not None


def test_large_arrays_arrive_whole_and_writable(pool):
    jobs = {pool.submit(("array", size)): size for size in [10, 300_000, 1_000_000] * 2}
    results = collect_all(pool)
    assert len(results) == len(jobs)
    for result in results:
        big = result.value["big"]
        assert big.shape == (jobs[result.job],)
        assert len(np.unique(big)) == 1
        big += 1
        result.value["small"][0] = 7


def test_parameters_arrive_by_version_read_only(pool):
    assert pool.share({}) == 1
    pool.submit(("shared", 0.0))
    assert pool.collect().value == (1, {})
    arrays = {"weight": np.ones((2, 2), np.float32), "count": np.array(3)}
    assert pool.share(arrays) == 2
    arrays["count"] += 1
    pool.submit(("shared", 0.0))
    assert pool.collect().value == (2, {"weight": ([[1, 1], [1, 1]], False), "count": (3, False)})
    assert [pool.share(arrays), pool.share(arrays)] == [3, 4]
    pool.submit(("shared", 0.0))
    assert pool.collect().value[0] == 4


def test_one_thread_in_each_worker(pool):
    pool.submit(("threads", None))
    assert pool.collect().value == (1, "1")


def test_an_exception_arrives_with_its_own_traceback(start):
    pool = start(2)
    pool.submit(("fail", ValueError("broken job")))
    with pytest.raises(RunError, match=r"worker . failed: broken job") as caught:
        collect_all(pool)
    assert "raise value\nValueError: broken job" in caught.value.__notes__[0]
    with pytest.raises(RunError, match="closed"):
        pool.collect()


def test_errors_of_set_up(start):
    with pytest.raises(ConfigError, match="no such environment"):
        start(2, Answers(fails_in_setup=ConfigError("no such environment")))
    with pytest.raises(RunError) as caught:
        start(2, Answers(fails_in_setup=ZeroDivisionError("nothing to share")))
    assert "ZeroDivisionError: nothing to share" in caught.value.__notes__[0]


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


def test_a_killed_worker_is_replaced_and_its_jobs_are_done(start):
    pool = start(2)
    pool.share({"weight": np.array(7.0)})
    jobs = [pool.submit(("who", 0.1)) for _ in range(16)]
    victim = pool.pids[0]
    first = pool.collect()
    os.kill(victim, signal.SIGKILL)
    with pytest.warns(RuntimeWarning, match=rf"worker 0 \(process {victim}\) was lost.*1 of at most 20 restarts"):
        results = collect_all(pool)
    assert sorted([first.job, *(result.job for result in results)]) == jobs
    assert pool.restarts == 1
    assert victim not in pool.pids
    pool.submit(("shared", 0.0), worker=0)
    assert pool.collect().value == (1, {"weight": (7.0, False)})


@pytest.mark.filterwarnings("ignore:worker")
def test_beyond_the_restarts_workers_are_dropped_and_the_last_one_ends_it(start):
    pool = start(2, max_restarts=0)
    os.kill(pool.pids[0], signal.SIGKILL)
    jobs = [pool.submit(("who", 0.0), worker=0) for _ in range(4)]
    with pytest.warns(RuntimeWarning, match=r"max_restarts is 0\); the run goes on with 1 worker$"):
        results = collect_all(pool)
    assert sorted(result.job for result in results) == jobs
    assert {result.worker for result in results} == {1}
    pool.submit(("exit", 3))
    began = time.monotonic()
    with pytest.raises(RunError, match="no worker is left"):
        pool.collect()
    assert time.monotonic() - began < 10


def test_a_hanging_worker_is_an_error_after_the_timeout(start):
    pool = start(1, job_timeout=1.0)
    pool.submit(("who", 60.0))
    began = time.monotonic()
    with pytest.raises(RunError, match=r"worker 0 .* did not answer within 1 seconds"):
        pool.collect()
    assert time.monotonic() - began < 5
